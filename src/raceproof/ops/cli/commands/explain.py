"""`raceproof explain`: why a row cannot go there now."""

import click

from raceproof.ops.cli.commands.show import no_such_row
from raceproof.ops.cli.completing import complete_lifecycle, complete_move, complete_status
from raceproof.ops.cli.ends import ExitCode
from raceproof.ops.cli.keys import key_of, parse_key, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, key_options, output_option, url_option
from raceproof.ops.cli.output import print_json, print_jsonl, print_lines
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.target import find_lifecycle, find_move
from raceproof.ops.explain import explain as explain_row

_HISTORY = 1000


@click.command(
    epilog="""\b
Examples:
  raceproof explain --app shop.models Order 1042 --to SHIPPED
  raceproof explain --app shop.models Order 1042 --move ship -o json

\b
Exit code 0 if it can go there, is there already, or only the store can tell;
3 if it cannot; 4 if there is no such row."""
)
@click.argument("lifecycle", shell_complete=complete_lifecycle)
@click.argument("key")
@app_option
@url_option
@key_options
@click.option(
    "--to", "status", metavar="STATUS", shell_complete=complete_status, help="The status that the row should have."
)
@click.option("--move", "move_name", metavar="MOVE", shell_complete=complete_move, help="Only by this move.")
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def explain(
    context: click.Context,
    lifecycle: str,
    key: str,
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    status: str | None,
    move_name: str | None,
    output: str,
) -> None:
    """Say why a row cannot go to a status now.

    Each condition true or false, who moved the row last and when, what is allowed instead, and the way that would lead
    there. Nothing is written.
    """
    spec = find_lifecycle(apps, lifecycle)
    if (status is None) == (move_name is None):
        raise click.UsageError("where to? Say --to STATUS or --move MOVE.")
    if status is not None and status not in spec.status_of:
        raise click.UsageError(f"{spec} has no status {status!r}; it has {', '.join(spec.status_of)}.")
    wanted = parse_key(spec, key, key_separator)
    with open_store(location, spec, tenant) as store:
        row = store.read(spec, wanted)
        if row is None:
            raise no_such_row(spec, wanted)
        found = key_of(spec, row, wanted)
        history = store.history(spec, found, _HISTORY) if spec.history else []
        told = explain_row(spec, row, status or find_move(spec, move_name or ""), history, found)
    match output:
        case "json":
            print_json(told.to_dict())
        case "jsonl":
            print_jsonl([told.to_dict()])
        case "ids":
            print_lines([written_key(found, key_separator)])
        case _:
            print_lines(told.lines())
    if told.verdict == "impossible":
        context.exit(ExitCode.REFUSED)
