"""What a database needs for a set of declarations, as lists of statements for a migration.

`ddl` are tables, columns, indexes and guards; `backfill` gives rows that are being worked on during the first deploy a
lease. Each statement can be sent alone, as asyncpg, Alembic and Django want it. Nothing here is ever run by the library.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from raceproof.attempts import Attempts
from raceproof.claims.forms import form_sql
from raceproof.declare.claim_forms import ClaimColumns
from raceproof.declare.lifecycle import Lifecycle, spec_of
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.dialect import listed
from raceproof.kernel.dialects import sql_dialect
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import identifier, literal, parameter, qualified
from raceproof.kernel.statement import templates
from raceproof.leases import Lease
from raceproof.run.scheduler import Schedules
from raceproof.schema.guards import drop_statements, guard_statements
from raceproof.schema.indexes import attempt_index, claim_indexes
from raceproof.schema.needed import adding, table_of, written_columns
from raceproof.schema.tables import Dialect, history_table, inbox_tables, lease_table, schedule_table

Declared: TypeAlias = (
    type[Lifecycle[Any]] | Spec[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox | Schedules
)

BEFORE = "before raceproof"
"""Who holds the rows that were being worked on before the first deploy."""


_ACCEPTED = "a Lifecycle, a claim of one, a Delivery, Attempts, a Lease, an Inbox or Schedules"

Part = Literal["tables", "columns", "indexes", "guards"]


def ddl(
    *declarations: Declared,
    dialect: Dialect,
    guards: bool = False,
    drop_guards: bool = False,
    only: Part | None = None,
    concurrently: bool = False,
    existing: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """The statements that prepare a database for these declarations, in the order in which they are to be run.

    `guards` adds the triggers; `drop_guards` gives only the statements that remove them, `only` those of one part.
    `concurrently` builds the indexes of claims on PostgreSQL without blocking writers, which no transaction allows.
    `existing` are the columns of your tables, by table: only the others are added. Without it PostgreSQL adds a column
    unless it exists; SQLite cannot, so there no column is added.
    """
    sql_dialect(dialect)
    things = list(declared_things(declarations))
    if drop_guards:
        return [statement for one in things if isinstance(one, Spec) for statement in drop_statements(one, dialect)]
    parts = ("tables", "columns", "indexes", *(("guards",) if guards else ())) if only is None else (only,)
    found: list[str] = []
    for thing in things:
        # a claim needs what its lifecycle needs, except the indexes of its other claims
        whole = thing.lifecycle if isinstance(thing, Claimable) else thing
        if "tables" in parts:
            found += _tables(whole, dialect)
        if "columns" in parts and isinstance(whole, Spec | Attempts | Delivery):
            found += missing_columns(whole, dialect, existing)
        if "indexes" in parts:
            found += _indexes(thing, dialect, concurrently)
        if "guards" in parts and isinstance(whole, Spec):
            found += guard_statements(whole, dialect)
    return list(dict.fromkeys(found))


def missing_columns(
    thing: Spec[Any] | Attempts | Delivery, dialect: Dialect, existing: Mapping[str, Collection[str]] | None = None
) -> list[str]:
    """The statements that add the columns which the library writes to a table of the user's."""
    columns = written_columns(thing)
    if existing is None:
        return adding(thing, columns, dialect, unless_there=True) if dialect == "postgres" else []
    there = existing.get(table_of(thing), ())
    return adding(thing, [column for column in columns if column not in there], dialect)


def backfill(*declarations: Declared, dialect: Dialect) -> list[str]:
    """The statements that give rows which are being worked on now, without a lease, one that begins now.

    A claim that leaves a row at its status has none: no statement can distinguish its waiting rows from those in work.
    """
    sql_dialect(dialect)
    claims: list[Claimable[Any]] = []
    for one in declared_things(declarations):
        claims += one.claims.values() if isinstance(one, Spec) else [one] if isinstance(one, Claimable) else []
    return [backfill_of(claim, dialect) for claim in claims if claim.move is not None]


def backfill_of(claim: Claimable[Any], dialect: Dialect) -> str:
    """The same for one claim, which has a move."""
    words = sql_dialect(dialect)
    constants = {"lease": repr(float(claim.lease)), "by": literal(BEFORE), "token": words.random_token}
    form = form_sql(claim.form, words, words.now(None))
    spec = claim.lifecycle
    slots = {
        "table": qualified(spec.table),
        "status": identifier(spec.column),
        "held": listed(claim.held),
        "take": ",\n    ".join(_constant(one, constants) for one in form.take),
        "until": _constant(form.until, constants),
        "never_claimed": "TRUE",
    }
    if isinstance(claim.form, ClaimColumns):
        # a fence of 0 or none: no claim of ours was ever made, so this is not a row that was given back and stays free
        slots["never_claimed"] = f"COALESCE(t.{identifier(claim.form.fence)}, 0) = 0"
    return templates("raceproof.schema", f"{dialect}.sql")["claim.backfill"].prepare(slots, "dollar").text


def _constant(text: str, constants: Mapping[str, str]) -> str:
    for name, value in constants.items():
        text = text.replace(parameter(name), value)
    return text


def declared_things(
    declarations: Iterable[Declared],
) -> Iterator[Spec[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox | Schedules]:
    """Each thing, a lifecycle before the attempts that are declared on it."""
    for one in declarations:
        match one:
            case Delivery() | Lease() | Inbox() | Schedules():
                yield one
            case Attempts():
                yield one.lifecycle
                yield one
            case Claimable():
                yield one
            case Spec() | type():
                yield spec_of(one)
            case _:
                raise CallError(f"expected declarations: {_ACCEPTED}; got {one!r}")


def _tables(thing: Any, dialect: Dialect) -> list[str]:
    match thing:
        case Spec():
            return history_table(thing, dialect)
        case Lease():
            return lease_table(thing, dialect)
        case Inbox():
            return inbox_tables(thing, dialect)
        case Schedules():
            return schedule_table(thing.table, dialect)
        case _:
            return []


def _indexes(thing: Any, dialect: Dialect, concurrently: bool) -> list[str]:
    match thing:
        case Spec() | Claimable():
            claims = thing.claims.values() if isinstance(thing, Spec) else (thing,)
            return [one for claim in claims for one in claim_indexes(claim, dialect, concurrently).values()]
        case Attempts():
            return [attempt_index(thing, dialect)]
        case _:
            return []
