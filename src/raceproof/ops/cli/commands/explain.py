"""`raceproof explain`: why a row cannot move to a status now."""

import click

from raceproof.ops.cli.commands.show import no_such_row
from raceproof.ops.cli.exits import ExitCode
from raceproof.ops.cli.keys import key_of, parse_key
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_lines, print_one
from raceproof.ops.cli.shell_completion import complete_lifecycle, complete_move, complete_status
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_lifecycle, find_move
from raceproof.ops.explain import explain as explain_row

_HISTORY = 1000


@click.command(
    epilog="""\b
Examples:
  raceproof explain --app shop.models Order 1042 --to SHIPPED
  raceproof explain --app shop.models Order 1042 --move ship -o json

\b
Exit code 0 if the row can move there, is there already, or only the store can decide;
3 if it cannot; 4 if there is no such row."""
)
@click.argument("lifecycle", shell_complete=complete_lifecycle)
@click.argument("key")
@shared_options("app", "url", "keys", output=("table", "json", "jsonl", "ids"))
@click.option(
    "--to", "status", metavar="STATUS", shell_complete=complete_status, help="The status that the row should reach."
)
@click.option("--move", "move_name", metavar="MOVE", shell_complete=complete_move, help="Only by this move.")
@click.pass_context
def explain(
    context: click.Context, options: Options, lifecycle: str, key: str, status: str | None, move_name: str | None
) -> None:
    """Explain why a row cannot move to a status now.

    Shows each condition as true or false, who moved the row last and when, which moves are allowed instead, and the
    shortest path to the status. Nothing is written.
    """
    spec = find_lifecycle(options.apps, lifecycle)
    if (status is None) == (move_name is None):
        raise click.UsageError("give either --to STATUS or --move MOVE.")
    if status is not None and status not in spec.status_of:
        raise click.UsageError(f"{spec} has no status {status!r}; it has {', '.join(spec.status_of)}.")
    wanted = parse_key(spec, key, options.key_separator)
    with open_store(options, spec) as store:
        row = store.read(spec, wanted)
        if row is None:
            raise no_such_row(spec, wanted)
        found = key_of(spec, row, wanted)
        history = store.history(spec, found, _HISTORY) if spec.history else []
        explanation = explain_row(spec, row, status or find_move(spec, move_name or ""), history, found)
    print_one(options, explanation.to_dict(), found, lambda: print_lines(explanation.lines()))
    if explanation.verdict == "impossible":
        context.exit(ExitCode.REFUSED)
