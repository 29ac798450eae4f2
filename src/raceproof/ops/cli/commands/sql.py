"""`raceproof sql`: what the database needs, and what is sent to it."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import click

from raceproof import Inbox
from raceproof.declare.spec import Spec
from raceproof.kernel.redis import RedisDialect
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, url_option
from raceproof.ops.cli.preparing import Existing, Other, dropped_parts, existing_columns, lifecycle_parts, other_parts
from raceproof.ops.cli.programs import Asked, statements_for
from raceproof.ops.cli.statements import Shown, statements_of
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import BESIDE, WORDS, Target, find_declared
from raceproof.run import Schedules
from raceproof.schema import Dialect

_OTHERS = (*BESIDE, Schedules)


@click.command(
    epilog="""\b
Examples:
  raceproof sql --app shop.models | psql shop
  raceproof sql --app shop.models --guards > migrations/0007_guards.sql
  raceproof sql --app shop.models --missing --url sqlite:///shop.db | sqlite3 shop.db
  raceproof sql --app shop.models Order --statements --dialect sqlite
  raceproof sql --app shop.models --drop-guards | psql shop
  raceproof sql --schedules | psql shop"""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(Spec, *_OTHERS))
@app_option
@url_option
@click.option(
    "--dialect",
    type=click.Choice(["postgres", "sqlite", "redis"]),
    help="For which kind of store.  [default: that of the URL if there is one, else postgres]",
)
@click.option("--guards", is_flag=True, help="Also the triggers that make the declared moves the only possible ones.")
@click.option("--drop-guards", is_flag=True, help="Only what takes these triggers away again.")
@click.option("--schedules", is_flag=True, help="Also the table of schedules, where no Schedules is declared.")
@click.option(
    "--missing", is_flag=True, help="Look at the database, and print only those columns that its tables lack."
)
@click.option("--statements", is_flag=True, help="Also the finished statements of each call.")
@debug_option
def sql(
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    dialect: str | None,
    guards: bool,
    drop_guards: bool,
    schedules: bool,
    missing: bool,
    statements: bool,
) -> None:
    """Print the DDL and the statements. Needs no database, except for --missing.

    TARGET is a lifecycle, with its claims, a Delivery, an Attempts, a Lease, an Inbox or a Schedules; without one, all
    that are declared. An index is made CONCURRENTLY on PostgreSQL, so not inside a transaction.

    The columns of your tables are added unless they exist; for SQLite, which cannot do that, they are printed as comments.
    Rows in work that never had a lease get one that begins now: without it, new workers take them from the old ones at
    once.

    Everything is safe to run again. Nothing is ever run for you: read it, then pipe it where it belongs.
    """
    specs, others = find_declared(apps, names, _OTHERS) if apps or names or not schedules else ([], [])
    if schedules and not any(isinstance(other.thing, Schedules) for other in others):
        others.append(Target("", "schedules", Schedules()))
    kind = dialect or (location.kind if location else "postgres")
    if kind == "redis" and (guards or drop_guards):
        raise click.UsageError("Redis has no triggers, so it has no guards.")
    if drop_guards and (guards or statements):
        raise click.UsageError("--drop-guards prints nothing else.")
    existing = _looked_at(location, kind, [*specs, *(other.thing for other in others)]) if missing else None
    printed: set[tuple[str, str]] = set()
    for spec in specs:
        click.echo(_comment(f"{spec} · {spec.table}.{spec.column} · declaration {spec.hash} · {kind}"))
        _print(_parts(spec, kind, guards, drop_guards, statements, existing), printed)
    for other in [] if drop_guards else others:
        click.echo(_comment(f"{other.name} · {WORDS[type(other.thing)]} · {kind}"))
        _print(_other_parts(other.thing, kind, statements, existing), printed)


def _looked_at(location: Location | None, kind: str, things: list[Any]) -> Existing:
    if kind == "redis":
        raise click.UsageError("Redis has no columns, so --missing has nothing to look for.")
    with open_store(location) as store:
        if store.dialect != kind:
            raise click.UsageError(f"--missing looks at the database, which is {store.dialect}: leave out --dialect.")
        return existing_columns(store, things)


def _print(parts: Iterable[tuple[str, str]], printed: set[tuple[str, str]]) -> None:
    for part in parts:
        if part not in printed:  # lifecycles may share a history, and all share their scripts
            click.echo("\n".join(filter(None, (_comment(part[0]), part[1].rstrip()))) + "\n")
        printed.add(part)


def _parts(
    spec: Spec[Any], kind: str, guards: bool, drop_guards: bool, statements: bool, existing: Existing | None
) -> Iterator[tuple[str, str]]:
    """Titles and texts, in the order in which they are to be run."""
    if kind == "redis":
        yield "no schema", _keys(spec)
    elif drop_guards:
        yield from dropped_parts(spec, cast(Dialect, kind))
    else:
        yield from lifecycle_parts(spec, cast(Dialect, kind), guards, existing)
    if statements:
        for move in spec.moves.values():
            for shown in statements_of(move, kind):
                yield _title(f"{move} {shown.name}", shown), _text(shown, kind)
        for claim in spec.claims.values():
            yield from _shown_parts(claim, kind)


def _other_parts(thing: Other, kind: str, statements: bool, existing: Existing | None) -> Iterator[tuple[str, str]]:
    """The same for what is not a lifecycle."""
    if kind != "redis":
        yield from other_parts(thing, cast(Dialect, kind), existing)
    if not statements:
        return
    if isinstance(thing, Schedules):
        yield from _shown_parts(thing.run, kind)
        return
    yield from _shown_parts(thing, kind)
    if isinstance(thing, Inbox):
        yield from _shown_parts(thing.work, kind)


def _shown_parts(thing: Asked, kind: str) -> Iterator[tuple[str, str]]:
    for shown in statements_for(thing, kind):
        yield _title(f"{thing} {shown.name}", shown), _text(shown, kind)


def _title(name: str, shown: Shown) -> str:
    return f"{name}, {shown.note}" if shown.note else name


def _text(shown: Shown, kind: str) -> str:
    if shown.keys:
        arguments = [f"KEYS[{i}] {key}" for i, key in enumerate(shown.keys, 1)]
        arguments += [f"ARGV[{i}] {value or repr('')}" for i, value in enumerate(shown.parameters, 1)]
        return "\n".join([*map(_comment, arguments), shown.text])
    if shown.parameters and " " not in shown.text:  # a command of Redis
        return _comment(" ".join((shown.text, *shown.parameters)))
    if not shown.parameters:
        return f"{shown.text};"
    values = shown.parameters
    if kind == "sqlite":
        return f"{_comment('? in order: ' + ', '.join(values))}\n{shown.text};"
    return f"{_comment(', '.join(f'${i} {value}' for i, value in enumerate(values, 1)))}\n{shown.text};"


def _keys(spec: Spec[Any]) -> str:
    parts = tuple(f"<{column}>" for column in spec.key_columns)
    lines = [f"a row is a hash at {RedisDialect().row_key(spec, parts)}, its status the field {spec.column}"]
    if spec.history:
        lines.append(f"its history is a stream at {RedisDialect().history_key(spec, parts)}")
    return "\n".join(map(_comment, lines))


def _comment(text: str) -> str:
    """A line that every store takes for a comment, whatever a name contains."""
    return "-- " + " ".join(text.split())
