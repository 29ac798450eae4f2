"""`raceproof grants`: the minimal rights for a program."""

import click

from raceproof.declare import Spec
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.targets import BESIDE, find_declared
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
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(Spec, *_OTHERS))
@shared_options("app", "url")
@click.option("--role", required=True, help="The role or user that gets the rights.")
@click.option("--read-only", is_flag=True, help="Only rights to read: for the dashboard, show and explain.")
@click.option("--sweep", is_flag=True, help="Also the rights of `raceproof sweep` to delete old history and events.")
@click.option(
    "--dialect",
    type=click.Choice(["postgres", "redis"]),
    help="The kind of store.  [default: from the URL, else postgres]",
)
def grants(
    options: Options, names: tuple[str, ...], role: str, read_only: bool, sweep: bool, dialect: str | None
) -> None:
    """Print the minimal rights for the declarations. Needs no database.

    GRANT statements for PostgreSQL, an ACL rule without a password for Redis. A role with them can make every decision of
    these declarations and nothing else: your own statements and migrations need further rights. Nothing is executed.
    """
    specs, others = find_declared(options.apps, names, _OTHERS)
    kind = dialect or (options.location.kind if options.location else "postgres")
    if kind == "sqlite":
        raise click.UsageError("SQLite has no roles: file permissions decide who can read and write.")
    if read_only and sweep:
        raise click.UsageError("--sweep needs the right to delete: leave out --read-only.")
    declared = (*specs, *(other.thing for other in others))
    if kind == "redis":
        click.echo(redis_rule(*declared, role=role, read_only=read_only, sweep=sweep))
        return
    for statement in postgres_grants(*declared, role=role, read_only=read_only, sweep=sweep):
        click.echo(statement)
