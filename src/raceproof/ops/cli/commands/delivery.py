"""`raceproof delivery`: what is under way or uncertain, and saying how an uncertain one has ended."""

from typing import Any

import click

from raceproof import Delivery, DeliveryRecorded, Missing, SendRefused, Store
from raceproof.deliveries import DeliveryState
from raceproof.kernel.shown import shown_key
from raceproof.ops.cli.changes import (
    Change,
    by_option,
    change_each,
    confirm,
    login_name,
    rows_of,
    show_changes,
    write_options,
)
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode
from raceproof.ops.cli.keys import Key, parse_keys, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.looking import delivery_state
from raceproof.ops.cli.options import app_option, debug_option, key_options, limit_option, output_option, url_option
from raceproof.ops.cli.output import print_rows
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import find_only, find_thing, need_tenant

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
@click.argument("name", metavar="[TARGET]", required=False, shell_complete=complete_thing(Delivery))
@app_option
@url_option
@key_options
@click.option("--uncertain", is_flag=True, help="Only those whose end nobody knows.")
@limit_option(100)
@click.option("--resolve", "keys", metavar="KEY", multiple=True, help="You have looked: say how this one has ended.")
@click.option("--arrived/--not-arrived", "arrived", default=None, help="Whether it arrived, for --resolve.")
@by_option
@write_options
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def delivery(
    context: click.Context,
    name: str | None,
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    uncertain: bool,
    limit: int,
    keys: tuple[str, ...],
    arrived: bool | None,
    by: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """List unfinished deliveries, or resolve one.

    Those that are under way or uncertain, the oldest first. TARGET is a Delivery that a module declares; it can be left
    out if there is only one. Redis cannot be searched for them; there, resolve one by its key. A --resolve of - reads keys
    from stdin, one on a line.
    """
    target = find_only(apps, Delivery) if name is None else find_thing(apps, name, Delivery)
    need_tenant(target.thing, tenant)
    if bool(keys) != (arrived is not None):
        raise click.UsageError("say both: --resolve KEY, and --arrived or --not-arrived.")
    if arrived is not None:
        wanted = parse_keys(target.thing, keys, key_separator)
        if not (dry_run or yes):
            word = "arrived" if arrived else "not arrived"
            confirm(f"Mark {target.name} of {rows_of(wanted, key_separator)} as {word} in {location}?")
        who, ended = by or login_name(), arrived

        def change(store: Store, key: Key) -> Change:
            if dry_run:
                return _foreseen(store, target.thing, key, ended)
            return _resolved(store, target.thing, key, ended, who)

        show = show_changes(output, ("key", "outcome"), _STYLES, key_separator)
        context.exit(change_each(location, tenant, wanted, change, show))
    with open_store(location, None, tenant) as store:
        found = store.deliveries(target.thing, limit, uncertain=uncertain)
    rows: list[dict[str, Any]] = [{column: getattr(one, column) for column in _COLUMNS} for one in found]
    if output == "table":
        rows = [{**row, "key": written_key(row["key"], key_separator)} for row in rows]
    print_rows(output, _COLUMNS, rows, _STYLES, lambda row: written_key(row["key"], key_separator))
    if not rows:
        click.echo("nothing is under way" if not uncertain else "nothing is uncertain", err=True)


def _resolved(store: Store, asked: Delivery, key: Key, arrived: bool, by: str) -> Change:
    answer = store.resolve(asked, key, arrived=arrived, by=by)
    match answer:
        case DeliveryRecorded():
            return Change(key, answer.outcome, "", ExitCode.OK, {})
        case Missing():
            return _missing(asked, key)
        case SendRefused(state=state):
            return _nothing_to_resolve(asked, key, state, arrived, answer.outcome)
        case _:
            return Change(key, answer.outcome, str(answer), ExitCode.REFUSED, {})


def _foreseen(store: Store, asked: Delivery, key: Key, arrived: bool) -> Change:
    state = delivery_state(store, asked, key)
    if state is None:
        return _missing(asked, key)
    if state == DeliveryState.UNCERTAIN:
        return Change(key, f"would be {_end(arrived)}", "", ExitCode.OK, {})
    return _nothing_to_resolve(asked, key, state, arrived, "would be refused")


def _nothing_to_resolve(asked: Delivery, key: Key, state: str, arrived: bool, outcome: str) -> Change:
    if state == _end(arrived):  # somebody has said so already
        return Change(key, state, "", ExitCode.OK, {})
    message = f"{asked} of {shown_key(key)} is {state}, not uncertain: there is nothing to resolve"
    return Change(key, outcome, message, ExitCode.REFUSED, {})


def _end(arrived: bool) -> DeliveryState:
    return DeliveryState.DELIVERED if arrived else DeliveryState.FAILED


def _missing(asked: Delivery, key: Key) -> Change:
    message = f"{asked} of {shown_key(key)}: there is no such row in {asked.table}"
    return Change(key, "missing", message, ExitCode.NOT_FOUND, {})
