"""`raceproof grants`: the least rights that a program needs."""

import click

from raceproof.declare import Spec
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, url_option
from raceproof.ops.cli.things import BESIDE, find_declared
from raceproof.ops.grants import postgres_grants, redis_rule
from raceproof.run import Schedules

_OTHERS = (*BESIDE, Schedules)


@click.command(
    epilog="""\b
Examples:
  raceproof grants --app shop.models --role worker | psql shop
  raceproof grants --app shop.models --role dashboard --read-only | psql shop
  raceproof grants --app shop.models --role worker --dialect redis | redis-cli"""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(Spec, *_OTHERS))
@app_option
@url_option
@click.option("--role", required=True, help="Who gets the rights. The role or user of the store, by its name.")
@click.option("--read-only", is_flag=True, help="Only what is needed to look: for the dashboard, show and explain.")
@click.option("--sweep", is_flag=True, help="Also what `raceproof sweep` needs to delete old histories and events.")
@click.option(
    "--dialect",
    type=click.Choice(["postgres", "redis"]),
    help="For which kind of store.  [default: that of the URL if there is one, else postgres]",
)
@debug_option
def grants(
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    role: str,
    read_only: bool,
    sweep: bool,
    dialect: str | None,
) -> None:
    """Print the least rights for what is declared. Needs no database.

    GRANT statements for PostgreSQL, an ACL rule without a password for Redis. They let a role make every decision of these
    declarations, and nothing else: your own statements and migrations need rights of their own. Nothing is ever run for you.
    """
    specs, others = find_declared(apps, names, _OTHERS)
    kind = dialect or (location.kind if location else "postgres")
    if kind == "sqlite":
        raise click.UsageError("SQLite has no roles: whoever may write the file may do everything.")
    if read_only and sweep:
        raise click.UsageError("--sweep deletes, and --read-only cannot: choose one of them.")
    declared = (*specs, *(other.thing for other in others))
    if kind == "redis":
        click.echo(redis_rule(*declared, role=role, read_only=read_only, sweep=sweep))
        return
    for statement in postgres_grants(*declared, role=role, read_only=read_only, sweep=sweep):
        click.echo(statement)
