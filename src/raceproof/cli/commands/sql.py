"""`raceproof sql`: what the database needs, and what is sent to it."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import click

from raceproof import Attempts, Delivery, Inbox, Lease, Schedules, inbox_ddl, lease_ddl, schedule_ddl
from raceproof.cli.completing import complete_thing
from raceproof.cli.location import Location
from raceproof.cli.options import app_option, debug_option, url_option
from raceproof.cli.programs import Asked, statements_for
from raceproof.cli.statements import Shown, statements_of
from raceproof.cli.things import BESIDE, WORDS, Target, find_declared
from raceproof.guard import drop_ddl, guard_ddl
from raceproof.moves.redis import RedisMoves
from raceproof.schema import attempt_index_ddl, claim_index_ddl, history_ddl
from raceproof.schema.history import Dialect
from raceproof.spec import Spec

_OTHERS = (*BESIDE, Schedules)
Other = Delivery | Attempts | Lease | Inbox | Schedules


@click.command(
    epilog="""\b
Examples:
  raceproof sql --app shop.models | psql shop
  raceproof sql --app shop.models --guards > migrations/0007_guards.sql
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
@click.option(
    "--guards", is_flag=True, help="Also the triggers that make the declared moves the only possible ones."
)
@click.option("--drop-guards", is_flag=True, help="Only what takes these triggers away again.")
@click.option(
    "--schedules", is_flag=True, help="Also the table of schedules, where no Schedules is declared."
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
    statements: bool,
) -> None:
    """Print the DDL and the statements. Needs no database.

    TARGET is a lifecycle, with its claims, a Delivery, an Attempts, a Lease, an Inbox or a Schedules; without one, all
    that are declared. An index is made CONCURRENTLY on PostgreSQL, so not inside a transaction.

    The DDL is safe to run again. Nothing is ever run for you: read it, then pipe it where it belongs.
    """
    specs, others = find_declared(apps, names, _OTHERS) if apps or names or not schedules else ([], [])
    if schedules and not any(isinstance(other.thing, Schedules) for other in others):
        others.append(Target("", "schedules", Schedules()))
    kind = dialect or (location.kind if location else "postgres")
    if kind == "redis" and (guards or drop_guards):
        raise click.UsageError("Redis has no triggers, so it has no guards.")
    if drop_guards and (guards or statements):
        raise click.UsageError("--drop-guards prints nothing else.")
    printed: set[tuple[str, str]] = set()
    for spec in specs:
        click.echo(_comment(f"{spec} · {spec.table}.{spec.column} · declaration {spec.hash} · {kind}"))
        _print(_parts(spec, kind, guards, drop_guards, statements), printed)
    for other in [] if drop_guards else others:
        click.echo(_comment(f"{other.name} · {WORDS[type(other.thing)]} · {kind}"))
        _print(_other_parts(other.thing, kind, statements), printed)


def _print(parts: Iterable[tuple[str, str]], printed: set[tuple[str, str]]) -> None:
    for part in parts:
        if part not in printed:  # lifecycles may share a history, and all share their scripts
            click.echo(f"{_comment(part[0])}\n{part[1].rstrip()}\n")
        printed.add(part)


def _parts(
    spec: Spec[Any], kind: str, guards: bool, drop_guards: bool, statements: bool
) -> Iterator[tuple[str, str]]:
    """Titles and texts, in the order in which they are to be run."""
    if kind == "redis":
        yield "no schema", _keys(spec)
    elif drop_guards:
        yield "take the guards away", drop_ddl(spec, cast(Dialect, kind))
    else:
        if history := history_ddl(spec, cast(Dialect, kind)):
            yield f"history of moves, {spec.history.table if spec.history else ''}", history
        for claim in spec.claims.values():
            yield f"{claim}: index", claim_index_ddl(claim, cast(Dialect, kind))
        if guards:
            yield "guards: only declared moves are possible", guard_ddl(spec, cast(Dialect, kind))
    if statements:
        for move in spec.moves.values():
            for shown in statements_of(move, kind):
                yield _title(f"{move} {shown.name}", shown), _text(shown, kind)
        for claim in spec.claims.values():
            yield from _shown_parts(claim, kind)


def _other_parts(thing: Other, kind: str, statements: bool) -> Iterator[tuple[str, str]]:
    """The same for what is not a lifecycle."""
    if kind != "redis":
        match thing:
            case Attempts():
                yield f"{thing}: at most one is open", attempt_index_ddl(thing, cast(Dialect, kind))
            case Lease():
                yield f"leases, {thing.table}", lease_ddl(kind, thing.table)
            case Inbox():
                yield f"{thing}", inbox_ddl(kind, thing)
            case Schedules():
                yield f"schedules, {thing.table}", schedule_ddl(kind, thing)
            case Delivery():
                pass
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
    lines = [f"a row is a hash at {RedisMoves().row_key(spec, parts)}, its status the field {spec.column}"]
    if spec.history:
        lines.append(f"its history is a stream at {RedisMoves().history_key(spec, parts)}")
    return "\n".join(map(_comment, lines))


def _comment(text: str) -> str:
    """A line that every store takes for a comment, whatever a name contains."""
    return "-- " + " ".join(text.split())
