"""`raceproof delivery`: unfinished and uncertain deliveries, and recording how an uncertain one ended."""

from collections.abc import Iterator
from typing import Any

import click

from raceproof import Delivery, DeliveryRecorded, Missing, SendRefused, Store
from raceproof.deliveries import DeliveryState
from raceproof.kernel.shown import shown_key
from raceproof.ops.cli.changes import Change, change_rows, confirm, rows_of
from raceproof.ops.cli.exits import ExitCode
from raceproof.ops.cli.keys import Key, parse_keys
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_keyed
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_only, find_target, need_tenant
from raceproof.ops.inspect import delivery_state

_COLUMNS = ("key", "state", "holder", "since", "attempts", "error")
_STYLES = {"uncertain": "bold red", "sending": "yellow", "delivered": "green", "failed": "yellow"}


@click.command(
    epilog="""\b
Examples:
  raceproof delivery --app shop.models pictures
  raceproof delivery --app shop.models pictures --uncertain -o ids
  raceproof delivery --app shop.models pictures --resolve 1042 --arrived
  raceproof delivery --app shop.models pictures --resolve 1042 --not-arrived      (it may be sent again)
  psql -At -c "select …" shop | raceproof delivery --app shop.models pictures --resolve - --arrived --yes

\b
Exit code of --resolve: 0 if it is resolved, 3 if it is not uncertain, 4 if there is no such row,
7 if some of several are resolved and some are not."""
)
@click.argument("name", metavar="[TARGET]", required=False, shell_complete=complete_target(Delivery))
@shared_options("app", "url", "keys", "by", "write", limit=100, output=("table", "json", "jsonl", "ids"))
@click.option("--uncertain", is_flag=True, help="Only deliveries whose outcome is unknown.")
@click.option("--resolve", "keys", metavar="KEY", multiple=True, help="Record how this delivery ended, after checking.")
@click.option("--arrived/--not-arrived", "arrived", default=None, help="For --resolve: whether it arrived.")
@click.pass_context
def delivery(
    context: click.Context,
    options: Options,
    name: str | None,
    uncertain: bool,
    keys: tuple[str, ...],
    arrived: bool | None,
) -> None:
    """List unfinished deliveries, or resolve uncertain ones.

    Lists deliveries in progress and uncertain ones, oldest first. TARGET is a Delivery declared in a module; it can be
    omitted if there is only one. Redis cannot be searched for deliveries; there, resolve one by its key. --resolve - reads
    keys from stdin, one per line.
    """
    target = find_only(options.apps, Delivery) if name is None else find_target(options.apps, name, Delivery)
    need_tenant(target.thing, options.tenant)
    if bool(keys) != (arrived is not None):
        raise click.UsageError("--resolve KEY goes together with --arrived or --not-arrived.")
    if arrived is not None:
        wanted = parse_keys(target.thing, keys, options.key_separator)
        word = "arrived" if arrived else "not arrived"
        rows = rows_of(wanted, options.key_separator)
        confirm(options, f"Mark {target.name} of {rows} as {word} in {options.location}?")
        resolve = _preview if options.dry_run else _resolved

        def change(store: Store) -> Iterator[Change]:
            return (resolve(store, target.thing, key, arrived, options.actor) for key in wanted)

        context.exit(change_rows(options, wanted, change, ("key", "outcome"), _STYLES))
    with open_store(options) as store:
        found = store.deliveries(target.thing, options.limit, uncertain=uncertain)
    listed: list[dict[str, Any]] = [{column: getattr(one, column) for column in _COLUMNS} for one in found]
    print_keyed(options, _COLUMNS, listed, _STYLES)
    if not listed:
        click.echo("no delivery is uncertain" if uncertain else "no delivery is in progress", err=True)


def _resolved(store: Store, declared: Delivery, key: Key, arrived: bool, by: str) -> Change:
    answer = store.resolve(declared, key, arrived=arrived, by=by)
    match answer:
        case Missing():
            return _missing(declared, key)
        case SendRefused(state=state):
            return _not_uncertain(declared, key, state, arrived, answer.outcome)
        case DeliveryRecorded():
            return Change(key, answer.outcome, ExitCode.OK)
        case _:
            return Change(key, answer.outcome, ExitCode.REFUSED, str(answer))


def _preview(store: Store, declared: Delivery, key: Key, arrived: bool, _: str) -> Change:
    state = store.run(delivery_state(store, declared, key))
    if state is None:
        return _missing(declared, key)
    if state == DeliveryState.UNCERTAIN:
        return Change(key, f"would be {_end(arrived)}", ExitCode.OK)
    return _not_uncertain(declared, key, state, arrived, "would be refused")


def _not_uncertain(declared: Delivery, key: Key, state: str, arrived: bool, outcome: str) -> Change:
    if state == _end(arrived):  # resolved the same way before
        return Change(key, state, ExitCode.OK)
    message = f"{declared} of {shown_key(key)} is {state}, not uncertain: there is nothing to resolve"
    return Change(key, outcome, ExitCode.REFUSED, message)


def _end(arrived: bool) -> DeliveryState:
    return DeliveryState.DELIVERED if arrived else DeliveryState.FAILED


def _missing(declared: Delivery, key: Key) -> Change:
    message = f"{declared} of {shown_key(key)}: no such row in {declared.table}"
    return Change(key, "missing", ExitCode.NOT_FOUND, message)
