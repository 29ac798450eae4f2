"""`raceproof sql`: the DDL that the declarations need, and the statements that are sent."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import click

from raceproof import Inbox
from raceproof.declare.spec import Spec
from raceproof.kernel.redis import RedisDialect
from raceproof.ops.cli.apps import WORDS, Target
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.schema import Existing, Other, dropped_parts, existing_columns, lifecycle_parts, other_parts
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.statements import Declared, Shown, statements_of
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import BESIDE, find_declared
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
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(Spec, *_OTHERS))
@shared_options("app", "url")
@click.option(
    "--dialect",
    type=click.Choice(["postgres", "sqlite", "redis"]),
    help="The kind of store.  [default: from the URL, else postgres]",
)
@click.option("--guards", is_flag=True, help="Also the triggers that reject undeclared changes of status.")
@click.option("--drop-guards", is_flag=True, help="Only the statements that drop these triggers.")
@click.option("--schedules", is_flag=True, help="Also the table of schedules, if no Schedules is declared.")
@click.option("--missing", is_flag=True, help="Read the database, and print only the missing columns.")
@click.option("--statements", is_flag=True, help="Also the statements of each call.")
def sql(
    options: Options,
    names: tuple[str, ...],
    dialect: str | None,
    guards: bool,
    drop_guards: bool,
    schedules: bool,
    missing: bool,
    statements: bool,
) -> None:
    """Print the DDL and the statements. Needs no database, except for --missing.

    TARGET is a lifecycle, with its claims, a Delivery, an Attempts, a Lease, an Inbox or a Schedules; without one,
    everything declared. PostgreSQL creates indexes CONCURRENTLY, which cannot run inside a transaction.

    Columns are added to your tables unless they exist; SQLite cannot do that, so for SQLite they are printed as comments.
    Rows in progress without a lease get one that starts now: otherwise new workers would take them from old ones at once.

    Everything can be run again safely. Nothing is executed: read it, then pipe it where it belongs.
    """
    specs, others = find_declared(options.apps, names, _OTHERS) if options.apps or names or not schedules else ([], [])
    if schedules and not any(isinstance(other.thing, Schedules) for other in others):
        others.append(Target("", "schedules", Schedules()))
    kind = dialect or (options.location.kind if options.location else "postgres")
    if kind == "redis" and (guards or drop_guards):
        raise click.UsageError("Redis has no triggers, so there are no guards.")
    if drop_guards and (guards or statements):
        raise click.UsageError("--drop-guards goes with neither --guards nor --statements.")
    existing = _existing(options, kind, [*specs, *(other.thing for other in others)]) if missing else None
    printed: set[tuple[str, str]] = set()
    for spec in specs:
        click.echo(_comment(f"{spec} · {spec.table}.{spec.column} · declaration {spec.hash} · {kind}"))
        _print(_parts(spec, kind, guards, drop_guards, statements, existing), printed)
    for other in [] if drop_guards else others:
        click.echo(_comment(f"{other.name} · {WORDS[type(other.thing)]} · {kind}"))
        _print(_other_parts(other.thing, kind, statements, existing), printed)


def _existing(options: Options, kind: str, things: list[Any]) -> Existing:
    if kind == "redis":
        raise click.UsageError("Redis has no columns, so there is nothing for --missing to compare.")
    with open_store(options) as store:
        if store.dialect != kind:
            raise click.UsageError(f"--missing reads the database, which is {store.dialect}: leave out --dialect.")
        return existing_columns(store, things)


def _print(parts: Iterable[tuple[str, str]], printed: set[tuple[str, str]]) -> None:
    for part in parts:
        if part not in printed:  # lifecycles may share a history, and all share their scripts
            click.echo("\n".join(filter(None, (_comment(part[0]), part[1].rstrip()))) + "\n")
        printed.add(part)


def _parts(
    spec: Spec[Any], kind: str, guards: bool, drop_guards: bool, statements: bool, existing: Existing | None
) -> Iterator[tuple[str, str]]:
    """Titles and texts, in the order in which to run them."""
    if kind == "redis":
        yield "no schema", _keys(spec)
    elif drop_guards:
        yield from dropped_parts(spec, cast(Dialect, kind))
    else:
        yield from lifecycle_parts(spec, cast(Dialect, kind), guards, existing)
    if statements:
        declarations: list[Declared] = [*spec.moves.values(), *spec.claims.values()]
        for declared in declarations:
            yield from _shown_parts(declared, kind)


def _other_parts(thing: Other, kind: str, statements: bool, existing: Existing | None) -> Iterator[tuple[str, str]]:
    """The same for the other declarations."""
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


def _shown_parts(thing: Declared, kind: str) -> Iterator[tuple[str, str]]:
    for shown in statements_of(thing, kind):
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
    """A comment in every dialect, whatever a name contains."""
    return "-- " + " ".join(text.split())
