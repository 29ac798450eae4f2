"""`raceproof move`: move rows along a declared move, by hand."""

from collections.abc import Iterable, Iterator
from typing import Any

import click

from raceproof import Store
from raceproof.declare import Move
from raceproof.ops.cli.changes import Change, change_rows, confirm, move_rows, preview_moves
from raceproof.ops.cli.keys import parse_keys
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.shell_completion import complete_lifecycle, complete_move
from raceproof.ops.cli.targets import find_lifecycle, find_move

_STYLES = {
    **dict.fromkeys(("moved", "would move"), "green"),
    "may move": "yellow",
    **dict.fromkeys(("refused", "would be refused", "missing", "lost"), "red"),
    **dict.fromkeys(("unknown", "conflict"), "bold red"),
}


@click.command(
    epilog="""\b
Examples:
  raceproof move --app shop.models Order cancel 1042 --reason "customer called"
  raceproof move --app shop.models Order ship 1042 1043 --set carrier=DHL --dry-run
  psql -At -c "select id from orders where …" shop | raceproof move --app shop.models Order cancel - --yes

\b
Exit code 0 if every row is at the target now, 3 if the move was refused, 4 if there is no such row,
7 if some rows got there and some did not."""
)
@click.argument("lifecycle", shell_complete=complete_lifecycle)
@click.argument("move_name", metavar="MOVE", shell_complete=complete_move)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@shared_options("app", "url", "keys", "by", "write", output=("table", "json", "jsonl", "ids"))
@click.option("--set", "assignments", metavar="COLUMN=VALUE", multiple=True, help="Set a column declared in sets=.")
@click.option("--clear", metavar="COLUMN", multiple=True, help="Set such a column to NULL.")
@click.option("--reason", help="Why, for the history.")
@click.pass_context
def move(
    context: click.Context,
    options: Options,
    lifecycle: str,
    move_name: str,
    keys: tuple[str, ...],
    assignments: tuple[str, ...],
    clear: tuple[str, ...],
    reason: str | None,
) -> None:
    """Move rows along a declared move, with an answer for each.

    The same guards apply as for every other caller: there is no force. A key of - reads keys from stdin, one per line.
    Many rows are moved 500 at a time, by one statement. -o ids prints the keys of the rows that this call moved.
    """
    spec = find_lifecycle(options.apps, lifecycle)
    chosen = find_move(spec, move_name)
    columns = _columns(chosen, assignments, clear)
    wanted = parse_keys(spec, keys, options.key_separator)
    number = "1 row" if len(wanted) == 1 else f"{len(wanted)} rows"
    confirm(options, f"Move {number} to {chosen.target} ({chosen}) in {options.location}?")

    def change(store: Store) -> Iterator[Change]:
        if options.dry_run:
            return preview_moves(store, chosen, wanted)
        return move_rows(store, chosen, wanted, columns, options.actor, reason)

    shown = ("key", "outcome", "before", "status", "revision")
    context.exit(change_rows(options, wanted, change, shown, _STYLES, spec))


def _columns(chosen: Move[Any], assignments: Iterable[str], clear: Iterable[str]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for assignment in assignments:
        column, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set must be COLUMN=VALUE, got {assignment!r}.")
        columns[column] = value
    columns |= dict.fromkeys(clear)
    if unknown := [column for column in columns if column not in chosen.sets]:
        declared = ", ".join(chosen.sets) or "no columns"
        raise click.UsageError(f"{chosen} does not set {', '.join(unknown)}; it declares {declared}.")
    return columns
