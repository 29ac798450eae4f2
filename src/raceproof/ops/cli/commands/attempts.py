"""`raceproof attempts`: the owner's active attempt and its history."""

from typing import Any

import click

from raceproof import Attempts
from raceproof.kernel.shown import shown_key
from raceproof.ops.cli.commands.show import print_history
from raceproof.ops.cli.exits import ExitCode, Failure
from raceproof.ops.cli.keys import key_of
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_one, print_table
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_target, need_tenant


@click.command(
    epilog="""\b
Examples:
  raceproof attempts --app shop.models logins ann
  raceproof attempts --app shop.models logins ann -o json | jq .status

\b
Exit code 4 if the owner has no active attempt."""
)
@click.argument("name", metavar="TARGET", shell_complete=complete_target(Attempts))
@click.argument("owner")
@shared_options("app", "url", "keys", limit=20, output=("table", "json", "jsonl", "ids"))
def attempts(options: Options, name: str, owner: str) -> None:
    """Show the active attempt of an owner.

    With its history, newest first. TARGET is an Attempts declared in a module.
    """
    target = find_target(options.apps, name, Attempts)
    need_tenant(target.thing, options.tenant)
    spec = target.thing.lifecycle
    with open_store(options) as store:
        row = store.current_attempt(target.thing, owner)
        if row is None:
            raise Failure(f"{target.name}: {shown_key(owner)} has no active attempt", ExitCode.NOT_FOUND)
        key: Any = key_of(spec, row, "")
        of = store.for_tenant(owner) if spec.tenant == target.thing.owner else store
        history = of.history(spec, key, options.limit) if spec.history else []

    def print_text() -> None:
        print_table([spec.name, ""], row.items())
        print_history(history)

    status = row.get(spec.column)
    data = {"attempts": target.name, "owner": owner, "key": key, "status": status, "row": row, "history": history}
    print_one(options, data, key, print_text)
