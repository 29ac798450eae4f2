"""`raceproof show`: a row, what may happen to it, and what has happened to it."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from raceproof.declare.spec import Spec
from raceproof.kernel.secrecy import HIDDEN, is_secret
from raceproof.kernel.shown import shown_key
from raceproof.moves import HistoryEntry
from raceproof.ops.cli.completing import complete_lifecycle
from raceproof.ops.cli.ends import ExitCode, Failure
from raceproof.ops.cli.keys import key_of, parse_key, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, key_options, output_option, url_option
from raceproof.ops.cli.output import print_json, print_jsonl, print_lines, print_table
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.target import find_lifecycle


@click.command(
    epilog="""\b
Examples:
  raceproof show --app shop.models Order 1042
  raceproof show --app shop.models Order 1042 -o json | jq .status
  raceproof show --app shop.models OrderLine 1042,3          (a key of two columns)"""
)
@click.argument("lifecycle", shell_complete=complete_lifecycle)
@click.argument("key")
@app_option
@url_option
@key_options
@click.option("--limit", type=click.IntRange(0, 10_000), default=20, show_default=True, help="How much of the history.")
@click.option("--reveal", is_flag=True, help="Print columns whose names speak of secrets, too.")
@output_option("table", "json", "jsonl", "ids")
@debug_option
def show(
    lifecycle: str,
    key: str,
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    limit: int,
    reveal: bool,
    output: str,
) -> None:
    """Show a row, its possible moves and its history.

    The history is what the lifecycle keeps, newest first. Columns named like a secret (password, token, key, hash) are
    shown as ••• unless you say --reveal. Exit code 4 if there is no such row.
    """
    spec = find_lifecycle(apps, lifecycle)
    wanted = parse_key(spec, key, key_separator)
    with open_store(location, spec, tenant) as store:
        row = store.read(spec, wanted)
        if row is None:
            raise no_such_row(spec, wanted)
        found = key_of(spec, row, wanted)
        history = store.history(spec, found, limit) if spec.history and limit else []
    data = {
        "lifecycle": spec.name,
        "key": found,
        "status": row.get(spec.column),
        "moves": {name: spec.moves[name].target for name in spec.moves_from.get(str(row.get(spec.column)), ())},
        "row": row if reveal else _without_secrets(spec, row),
        "history": history,
    }
    match output:
        case "json":
            print_json(data)
        case "jsonl":
            print_jsonl([data])
        case "ids":
            print_lines([written_key(found, key_separator)])
        case _:
            _print(spec, data)


def _without_secrets(spec: Spec[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as it may be pasted into a ticket; what it is found by stays."""
    return {
        name: HIDDEN if value is not None and is_secret(name) and name not in spec.key_columns else value
        for name, value in row.items()
    }


def no_such_row(spec: Spec[Any], key: Any) -> Failure:
    return Failure(
        f"{spec} {shown_key(key)}: there is no such row in {spec.table}",
        ExitCode.NOT_FOUND,
        f"A row of {spec} is found by {', '.join(spec.key_columns)}.",
    )


def _print(spec: Spec[Any], data: dict[str, Any]) -> None:
    status = data["status"]
    print_table([spec.name, ""], data["row"].items())
    moves = ", ".join(f"{name} → {target}" for name, target in data["moves"].items())
    if str(status) not in spec.status_of:
        moves = "nothing: this status is not a declared one, see `raceproof verify`"
    print_lines([f"Allowed from {status}: {moves or 'nothing, it is terminal'}"])
    print_history(data["history"])


def print_history(history: Sequence[HistoryEntry]) -> None:
    """What happened to a row, for people; nothing where nothing was kept."""
    if history:
        print_table(
            ["at", "move", "outcome", "from", "to", "revision", "by", "reason"],
            [
                (one.at, one.move, one.outcome, one.before, one.after, one.revision, one.actor, one.reason)
                for one in history
            ],
        )
