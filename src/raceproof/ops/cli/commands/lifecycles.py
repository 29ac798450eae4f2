"""`raceproof lifecycles`: what is declared."""

import click

from raceproof.ops.cli.options import app_option, debug_option, output_option
from raceproof.ops.cli.output import print_json, print_jsonl, print_lines, print_table
from raceproof.ops.cli.target import find_lifecycles


@click.command(
    epilog="""\b
Examples:
  raceproof lifecycles --app shop.models
  raceproof lifecycles --app shop.models -o ids | xargs -n 1 raceproof verify --app shop.models"""
)
@app_option
@output_option("table", "json", "jsonl", "ids")
@debug_option
def lifecycles(apps: tuple[str, ...], output: str) -> None:
    """List the lifecycles that are declared.

    Needs no database. As JSON they are whole declarations, in the form that a .toml file has.
    """
    found = find_lifecycles(apps)
    match output:
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
