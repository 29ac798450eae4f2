"""What a database needs for a set of declarations, as lists of statements for a migration.

`ddl` are tables, columns, indexes and guards; `backfill` gives rows that are being worked on during the first deploy a
lease. Each statement can be sent alone, as asyncpg, Alembic and Django want it. Nothing here is ever run by the library.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from raceproof.attempts import Attempts
from raceproof.deliveries import Delivery
from raceproof.forms import Columns
from raceproof.guard import drop_statements, guard_statements
from raceproof.inbox import Inbox, inbox_statements
from raceproof.leases import Lease, lease_ddl
from raceproof.lifecycle import Lifecycle, spec_of
from raceproof.moves.form_sql import form_sql
from raceproof.moves.words import PostgresWords, SqliteWords
from raceproof.quoting import identifier, literal, parameter, qualified
from raceproof.schema import Dialect, attempt_index_ddl, history_statements
from raceproof.schema.indexes import claim_indexes
from raceproof.spec import Claimable, Spec
from raceproof.statement import need_sql, templates
from raceproof.verify.needed import adding, table_of, written_columns
from raceproof.worker import Schedules, schedule_ddl

Declared: TypeAlias = (
    type[Lifecycle[Any]] | Spec[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox | Schedules
)

BEFORE = "before raceproof"
"""Who holds the rows that were being worked on before the first deploy."""


def ddl(
    *declarations: Declared,
    dialect: Dialect,
    guards: bool = False,
    drop_guards: bool = False,
    concurrently: bool = False,
    existing: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """The statements that prepare a database for these declarations, in the order in which they are to be run.

    `guards` adds the triggers; `drop_guards` gives only the statements that remove them. `concurrently` builds the indexes
    of claims on PostgreSQL without blocking writers, which no transaction allows. `existing` are the columns of your tables,
    by table: only the others are added. Without it PostgreSQL adds a column unless it exists; SQLite cannot, so there no
    column is added.
    """
    need_sql(dialect)
    if drop_guards:
        specs = [one for one in declared_things(declarations) if isinstance(one, Spec)]
        return [statement for spec in specs for statement in drop_statements(spec, dialect)]
    found: list[str] = []
    for thing in declared_things(declarations):
        found += _tables(thing, dialect)
        if isinstance(thing, Spec | Attempts | Delivery):
            found += missing_columns(thing, dialect, existing)
        found += _indexes(thing, dialect, concurrently)
        if guards and isinstance(thing, Spec):
            found += guard_statements(thing, dialect)
    return list(dict.fromkeys(found))


def missing_columns(
    thing: Spec[Any] | Attempts | Delivery,
    dialect: Dialect,
    existing: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """The statements that add the columns which the library writes to a table of the user's."""
    columns = written_columns(thing)
    if existing is None:
        return adding(thing, columns, dialect, unless_there=True) if dialect == "postgres" else []
    there = existing.get(table_of(thing), ())
    return adding(thing, [column for column in columns if column not in there], dialect)


def backfill(*declarations: Declared, dialect: Dialect) -> list[str]:
    """The statements that give rows which are being worked on now, without a lease, one that begins now.

    A claim that leaves a row at its status has none: no statement can tell its waiting rows from those in work.
    """
    need_sql(dialect)
    specs = [one for one in declared_things(declarations) if isinstance(one, Spec)]
    return [
        backfill_of(claim, dialect)
        for spec in specs
        for claim in spec.claims.values()
        if claim.move is not None
    ]


def backfill_of(claim: Claimable[Any], dialect: Dialect) -> str:
    """The same for one claim, which has a move."""
    words, now, token = (
        (PostgresWords(), "statement_timestamp()", "gen_random_uuid()::text")
        if dialect == "postgres"
        else (SqliteWords(), "strftime('%Y-%m-%d %H:%M:%f', 'now')", "lower(hex(randomblob(16)))")
    )
    constants = {"lease": repr(float(claim.lease)), "by": literal(BEFORE), "token": token}
    form = form_sql(claim.form, words, now)
    spec = claim.lifecycle
    slots = {
        "table": qualified(spec.table),
        "status": identifier(spec.column),
        "held": ", ".join(literal(str(status)) for status in claim.held),
        "take": ",\n    ".join(_constant(one, constants) for one in form.take),
        "until": _constant(form.until, constants),
        "never_claimed": "TRUE",
    }
    if isinstance(claim.form, Columns):
        # a fence of 0 or none: no claim of ours was ever made, so this is not a row that was given back and stays free
        slots["never_claimed"] = f"COALESCE(t.{identifier(claim.form.fence)}, 0) = 0"
    return templates("raceproof.claims", f"{dialect}.sql")["claim.backfill"].prepare(slots, "dollar").text


def _constant(text: str, constants: Mapping[str, str]) -> str:
    for name, value in constants.items():
        text = text.replace(parameter(name), value)
    return text


def declared_things(
    declarations: Iterable[Declared],
) -> Iterator[Spec[Any] | Delivery | Attempts | Lease | Inbox | Schedules]:
    """Each thing once, a lifecycle before what is declared on it."""
    for one in declarations:
        match one:
            case Delivery() | Lease() | Inbox() | Schedules():
                yield one
            case Attempts():
                yield one.lifecycle
                yield one
            case Claimable():
                yield one.lifecycle
            case _:
                yield spec_of(one)


def _tables(thing: Any, dialect: Dialect) -> list[str]:
    match thing:
        case Spec():
            return history_statements(thing, dialect)
        case Lease():
            return [lease_ddl(dialect, thing.table)]
        case Inbox():
            return inbox_statements(dialect, thing)
        case Schedules():
            return [schedule_ddl(dialect, thing)]
        case _:
            return []


def _indexes(thing: Any, dialect: Dialect, concurrently: bool) -> list[str]:
    match thing:
        case Spec():
            claims = thing.claims.values()
            return [one for claim in claims for one in claim_indexes(claim, dialect, concurrently).values()]
        case Attempts():
            return [attempt_index_ddl(thing, dialect)]
        case _:
            return []
