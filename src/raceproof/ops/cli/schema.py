"""What `raceproof sql` prints of a database's preparation: titles and texts, in the order in which they are to be run."""

from collections.abc import Iterator, Mapping
from typing import Any

from raceproof import Attempts, Delivery, Inbox, Lease, Store
from raceproof.declare import Spec
from raceproof.ops.inspect import sql_of
from raceproof.ops.verify import Catalog
from raceproof.run import Schedules
from raceproof.schema import Dialect, ddl
from raceproof.schema.ddl import backfill_of, missing_columns
from raceproof.schema.guards import drop_statements, guard_statements
from raceproof.schema.indexes import claim_indexes
from raceproof.schema.needed import adding, columns_of, creating, table_of, written_columns
from raceproof.schema.tables import history_table

Existing = Mapping[str, Mapping[str, str]]
Other = Delivery | Attempts | Lease | Inbox | Schedules
Owned = Spec[Any] | Attempts | Delivery
"""What lives in a table of the user's."""

NO_BACKFILL = "no statement finds its rows in work, which keep their status: stop old workers before the first deploy"


def existing_columns(store: Store, things: list[Any]) -> Existing:
    """The columns of the tables of these things; none for a table that does not exist."""
    catalog = Catalog(sql_of(store).name, sql_of(store).style)
    tables = dict.fromkeys(table_of(thing) for thing in things if isinstance(thing, Spec | Attempts | Delivery))
    return {table: store.run(catalog.columns(table)) for table in tables}


def lifecycle_parts(
    spec: Spec[Any], dialect: Dialect, guards: bool, existing: Existing | None
) -> Iterator[tuple[str, str]]:
    """What a lifecycle needs."""
    if history := "\n".join(history_table(spec, dialect)):
        yield f"history of moves, {spec.history.table if spec.history else ''}", history
    yield from column_parts(spec, dialect, existing)
    for claim in spec.claims.values():
        yield f"{claim}: index", "\n".join(claim_indexes(claim, dialect).values())
    for claim in spec.claims.values():
        if claim.move is None:
            yield f"{claim}: {NO_BACKFILL}", ""
        else:
            yield f"{claim}: rows in work at the first deploy get a lease", backfill_of(claim, dialect)
    if guards:
        yield "guards: only declared moves are possible", "\n".join(guard_statements(spec, dialect))


def dropped_parts(spec: Spec[Any], dialect: Dialect) -> Iterator[tuple[str, str]]:
    """What takes the guards away."""
    yield "take the guards away", "\n".join(drop_statements(spec, dialect))
    if dialect == "sqlite" and spec.history:
        yield "when no lifecycle of this database has guards any more: DROP TABLE raceproof_override;", ""


def other_parts(thing: Other, dialect: Dialect, existing: Existing | None) -> Iterator[tuple[str, str]]:
    """What the declarations beside lifecycles need."""
    match thing:
        case Attempts():
            yield from column_parts(thing, dialect, existing)
            yield f"{thing}: at most one is open", "\n".join(ddl(thing, dialect=dialect, only="indexes")[-1:])
        case Delivery():
            yield from column_parts(thing, dialect, existing)
        case Lease():
            yield f"leases, {thing.table}", "\n".join(ddl(thing, dialect=dialect))
        case Inbox():
            yield f"{thing}", "\n".join(ddl(thing, dialect=dialect))
        case Schedules():
            yield f"schedules, {thing.table}", "\n".join(ddl(thing, dialect=dialect))


def column_parts(thing: Owned, dialect: Dialect, existing: Existing | None) -> Iterator[tuple[str, str]]:
    """The columns that a table of the user's needs; those with the user's values and types are proposed in comments."""
    table = table_of(thing)
    if existing is not None and not existing[table]:
        if not isinstance(thing, Attempts):  # printed with its lifecycle
            yield f"table {table} does not exist; add your own columns to it", creating(thing, dialect)[0]
        return
    if existing is not None:
        if statements := missing_columns(thing, dialect, existing):
            yield f"columns that {table} lacks", "\n".join(statements)
        own = [column for column in columns_of(thing) if column not in (*existing[table], *written_columns(thing))]
        if own:
            yield (f"columns of yours that {table} lacks; choose their types", _commented(adding(thing, own, dialect)))
    elif dialect == "postgres":
        if statements := missing_columns(thing, dialect):
            yield f"columns of {table}", "\n".join(statements)
    elif columns := written_columns(thing):
        title = f"columns of {table}; SQLite cannot add a column unless it exists: run those that you lack, or see --missing"
        yield title, _commented(adding(thing, columns, dialect))


def _commented(statements: list[str]) -> str:
    return "\n".join(f"-- {line}" for statement in statements for line in statement.splitlines())
