"""`raceproof show`: a row, its possible moves, and its history."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from raceproof.declare.spec import Spec
from raceproof.kernel.secrecy import HIDDEN, is_secret
from raceproof.kernel.shown import shown_key
from raceproof.moves import HistoryEntry
from raceproof.ops.cli.exits import ExitCode, Failure
from raceproof.ops.cli.keys import key_of, parse_key
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_lines, print_one, print_table
from raceproof.ops.cli.shell_completion import complete_lifecycle
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_lifecycle


@click.command(
    epilog="""\b
Examples:
  raceproof show --app shop.models Order 1042
  raceproof show --app shop.models Order 1042 -o json | jq .status
  raceproof show --app shop.models OrderLine 1042,3          (a key of two columns)"""
)
@click.argument("lifecycle", shell_complete=complete_lifecycle)
@click.argument("key")
@shared_options("app", "url", "keys", output=("table", "json", "jsonl", "ids"))
@click.option(
    "--limit",
    "history_limit",
    type=click.IntRange(0, 10_000),
    default=20,
    show_default=True,
    help="Entries of the history.",
)
@click.option("--reveal", is_flag=True, help="Also show columns that look like secrets.")
def show(options: Options, lifecycle: str, key: str, history_limit: int, reveal: bool) -> None:
    """Show a row, its possible moves and its history.

    The history is newest first, if the lifecycle keeps one. Columns named like a secret (password, token, key, hash) are
    shown as ••• unless --reveal is given. Exit code 4 if there is no such row.
    """
    spec = find_lifecycle(options.apps, lifecycle)
    wanted = parse_key(spec, key, options.key_separator)
    with open_store(options, spec) as store:
        row = store.read(spec, wanted)
        if row is None:
            raise no_such_row(spec, wanted)
        found = key_of(spec, row, wanted)
        history = store.history(spec, found, history_limit) if spec.history and history_limit else []
    data = {
        "lifecycle": spec.name,
        "key": found,
        "status": row.get(spec.column),
        "moves": {name: spec.moves[name].target for name in spec.moves_from.get(str(row.get(spec.column)), ())},
        "row": row if reveal else _without_secrets(spec, row),
        "history": history,
    }
    print_one(options, data, found, lambda: _print(spec, data))


def _without_secrets(spec: Spec[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as it may be pasted into a ticket; its key stays visible."""
    return {
        name: HIDDEN if value is not None and is_secret(name) and name not in spec.key_columns else value
        for name, value in row.items()
    }


def no_such_row(spec: Spec[Any], key: Any) -> Failure:
    return Failure(
        f"{spec} {shown_key(key)}: no such row in {spec.table}",
        ExitCode.NOT_FOUND,
        f"The key of {spec} is {', '.join(spec.key_columns)}.",
    )


def _print(spec: Spec[Any], data: dict[str, Any]) -> None:
    status = data["status"]
    print_table([spec.name, ""], data["row"].items())
    moves = ", ".join(f"{name} → {target}" for name, target in data["moves"].items())
    if str(status) not in spec.status_of:
        moves = "nothing: this status is not declared, see `raceproof verify`"
    print_lines([f"Allowed from {status}: {moves or 'nothing, it is terminal'}"])
    print_history(data["history"])


def print_history(history: Sequence[HistoryEntry]) -> None:
    """The history of a row as a table; nothing if it is empty."""
    if history:
        print_table(
            ["at", "move", "outcome", "from", "to", "revision", "by", "reason"],
            [
                (one.at, one.move, one.outcome, one.before, one.after, one.revision, one.actor, one.reason)
                for one in history
            ],
        )
