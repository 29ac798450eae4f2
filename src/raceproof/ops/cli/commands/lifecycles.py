"""`raceproof lifecycles`: list the declared lifecycles."""

import click

from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_json, print_jsonl, print_lines, print_table
from raceproof.ops.cli.targets import find_lifecycles


@click.command(
    epilog="""\b
Examples:
  raceproof lifecycles --app shop.models
  raceproof lifecycles --app shop.models -o ids | xargs -n 1 raceproof verify --app shop.models"""
)
@shared_options("app", output=("table", "json", "jsonl", "ids"))
def lifecycles(options: Options) -> None:
    """List the declared lifecycles.

    Needs no database. JSON contains the whole declarations, in the form of a .toml file.
    """
    found = find_lifecycles(options.apps)
    match options.output:
        case "json":
            print_json([{**spec.to_dict(), "hash": spec.hash} for spec in found])
        case "jsonl":
            print_jsonl({**spec.to_dict(), "hash": spec.hash} for spec in found)
        case "ids":
            print_lines(spec.name for spec in found)
        case _:
            print_table(
                ["lifecycle", "table", "key", "statuses", "moves", "history", "declaration"],
                [
                    (
                        spec.name,
                        f"{spec.table}.{spec.column}",
                        ", ".join(spec.key_columns),
                        len(spec.statuses),
                        len(spec.moves),
                        spec.history.table if spec.history else None,
                        spec.hash,
                    )
                    for spec in found
                ],
            )
