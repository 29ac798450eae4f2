"""`raceproof attempts`: the owner's current attempt, and what has happened to it."""

from typing import Any

import click

from raceproof import Attempts
from raceproof.kernel.shown import shown_key
from raceproof.ops.cli.commands.show import print_history
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode, Failure
from raceproof.ops.cli.keys import key_of, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, key_options, limit_option, output_option, url_option
from raceproof.ops.cli.output import print_json, print_jsonl, print_lines, print_table
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import find_thing, need_tenant


@click.command(
    epilog="""\b
Examples:
  raceproof attempts --app shop.models logins ann
  raceproof attempts --app shop.models logins ann -o json | jq .status

\b
Exit code 4 if the owner has no active attempt."""
)
@click.argument("name", metavar="TARGET", shell_complete=complete_thing(Attempts))
@click.argument("owner")
@app_option
@url_option
@key_options
@limit_option(20)
@output_option("table", "json", "jsonl", "ids")
@debug_option
def attempts(
    name: str,
    owner: str,
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    limit: int,
    output: str,
) -> None:
    """Show the active attempt of an owner.

    With its history, newest first. TARGET is an Attempts that a module declares.
    """
    target = find_thing(apps, name, Attempts)
    need_tenant(target.thing, tenant)
    spec = target.thing.lifecycle
    with open_store(location, None, tenant) as store:
        row = store.current_attempt(target.thing, owner)
        if row is None:
            raise Failure(f"{target.name}: {shown_key(owner)} has no active attempt", ExitCode.NOT_FOUND)
        key: Any = key_of(spec, row, "")
        of = store.for_tenant(owner) if spec.tenant == target.thing.owner else store
        history = of.history(spec, key, limit) if spec.history else []
    data = {
        "attempts": target.name,
        "owner": owner,
        "key": key,
        "status": row.get(spec.column),
        "row": row,
        "history": history,
    }
    match output:
        case "json":
            print_json(data)
        case "jsonl":
            print_jsonl([data])
        case "ids":
            print_lines([written_key(key, key_separator)])
        case _:
            print_table([spec.name, ""], row.items())
            print_history(history)
