"""`raceproof delivery`: what is under way or uncertain, and saying how an uncertain one has ended."""

from typing import Any

import click

from raceproof import Delivery, DeliveryState, Marked, Missing, NoTurn, Store
from raceproof.cli.changes import by_option, confirm, login_name, write_options
from raceproof.cli.completing import complete_thing
from raceproof.cli.ends import ExitCode, Failure
from raceproof.cli.keys import Key, parse_key, written_key
from raceproof.cli.location import Location
from raceproof.cli.looking import delivery_state
from raceproof.cli.options import (
    app_option,
    debug_option,
    key_options,
    limit_option,
    output_option,
    url_option,
)
from raceproof.cli.output import print_rows, printable
from raceproof.cli.stores import open_store
from raceproof.cli.things import find_thing, need_tenant

_COLUMNS = ("key", "state", "holder", "since", "attempts", "error")
_STYLES = {"uncertain": "bold red", "sending": "yellow", "delivered": "green", "failed": "yellow"}


@click.command(
    epilog="""\b
Examples:
  raceproof delivery --app shop.models pictures
  raceproof delivery --app shop.models pictures --uncertain -o ids
  raceproof delivery --app shop.models pictures --resolve 1042 --arrived
  raceproof delivery --app shop.models pictures --resolve 1042 --not-arrived      (it may be sent again)

\b
Exit code of --resolve: 0 if it is resolved, 3 if it is not uncertain, 4 if there is no such row."""
)
@click.argument("name", metavar="TARGET", shell_complete=complete_thing(Delivery))
@app_option
@url_option
@key_options
@click.option("--uncertain", is_flag=True, help="Only those whose end nobody knows.")
@limit_option(100)
@click.option("--resolve", metavar="KEY", help="You have looked: say how this one has ended.")
@click.option("--arrived/--not-arrived", "arrived", default=None, help="Whether it arrived, for --resolve.")
@by_option
@write_options
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def delivery(
    context: click.Context,
    name: str,
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    uncertain: bool,
    limit: int,
    resolve: str | None,
    arrived: bool | None,
    by: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """List unfinished deliveries, or resolve one.

    Those that are under way or uncertain, the oldest first. TARGET is a Delivery that a module declares. Redis cannot
    be searched for them; there, resolve one by its key.
    """
    target = find_thing(apps, name, Delivery)
    need_tenant(target.thing, tenant)
    if (resolve is None) != (arrived is None):
        raise click.UsageError("say both: --resolve KEY, and --arrived or --not-arrived.")
    if resolve is not None and arrived is not None:
        key = parse_key(target.thing, resolve, key_separator)
        if not (dry_run or yes):
            word = "arrived" if arrived else "not arrived"
            confirm(f"Mark {target.name} of {resolve} as {word} in {location}?")
        with open_store(location, None, tenant) as store:
            if dry_run:
                line, code = _foreseen(store, target.thing, key, arrived)
            else:
                line, code = _resolved(store, target.thing, key, arrived, by or login_name())
        if output == "table":
            line["key"] = written_key(key, key_separator)
        print_rows(output, ("key", "outcome"), [line], _STYLES, lambda row: written_key(key, key_separator))
        if code != ExitCode.OK:
            click.echo(printable(line["message"]), err=True)
        context.exit(code)
    with open_store(location, None, tenant) as store:
        found = store.deliveries(target.thing, limit, uncertain=uncertain)
    rows: list[dict[str, Any]] = [{column: getattr(one, column) for column in _COLUMNS} for one in found]
    if output == "table":
        rows = [{**row, "key": written_key(row["key"], key_separator)} for row in rows]
    print_rows(output, _COLUMNS, rows, _STYLES, lambda row: written_key(row["key"], key_separator))
    if not rows:
        click.echo("nothing is under way" if not uncertain else "nothing is uncertain", err=True)


def _resolved(
    store: Store, asked: Delivery, key: Key, arrived: bool, by: str
) -> tuple[dict[str, Any], ExitCode]:
    answer = store.resolve(asked, key, arrived=arrived, by=by)
    match answer:
        case Marked():
            return {"key": key, "outcome": answer.outcome, "message": ""}, ExitCode.OK
        case Missing():
            raise _missing(asked, key)
        case NoTurn(state=state):
            return _nothing_to_resolve(asked, key, state, arrived, answer.outcome)
        case _:
            return {"key": key, "outcome": answer.outcome, "message": str(answer)}, ExitCode.REFUSED


def _foreseen(store: Store, asked: Delivery, key: Key, arrived: bool) -> tuple[dict[str, Any], ExitCode]:
    state = delivery_state(store, asked, key)
    if state is None:
        raise _missing(asked, key)
    if state == DeliveryState.UNCERTAIN:
        return {"key": key, "outcome": f"would be {_end(arrived)}", "message": ""}, ExitCode.OK
    return _nothing_to_resolve(asked, key, state, arrived, "would be refused")


def _nothing_to_resolve(
    asked: Delivery, key: Key, state: str, arrived: bool, outcome: str
) -> tuple[dict[str, Any], ExitCode]:
    if state == _end(arrived):  # somebody has said so already
        return {"key": key, "outcome": state, "message": ""}, ExitCode.OK
    message = f"{asked} of {key!r} is {state}, not uncertain: there is nothing to resolve"
    return {"key": key, "outcome": outcome, "message": message}, ExitCode.REFUSED


def _end(arrived: bool) -> DeliveryState:
    return DeliveryState.DELIVERED if arrived else DeliveryState.FAILED


def _missing(asked: Delivery, key: Key) -> Failure:
    return Failure(f"{asked} of {key!r}: there is no such row in {asked.table}", ExitCode.NOT_FOUND)
