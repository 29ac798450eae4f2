"""The tables that are the library's own: history, leases, inbox, schedules."""

from typing import Any, Literal

from raceproof.declare.spec import Spec
from raceproof.inbox.declared import Inbox
from raceproof.kernel.dialects import sql_dialect
from raceproof.kernel.quoting import identifier, qualified, split_qualified
from raceproof.kernel.statement import templates
from raceproof.leases.declared import Lease

Dialect = Literal["postgres", "sqlite"]

history_columns = (
    "id",
    "lifecycle",
    "key",
    "move",
    "outcome",
    "before",
    "after",
    "revision",
    "actor",
    "reason",
    "call",
    "at",
)


def history_table(spec: Spec[Any], dialect: Dialect) -> list[str]:
    """The history that a lifecycle declares; nothing if it declares none. All lifecycles that name it share it."""
    if spec.history is None:
        return []
    *schema, table = split_qualified(spec.history.table)
    slots = {"history": qualified(spec.history.table), "bare": identifier(table)}
    slots["index"] = identifier(f"{table}_by_key")
    # an index is where its table is: PostgreSQL says so by the table, SQLite by the index
    slots["index_in_schema"] = ".".join(identifier(part) for part in (*schema, f"{table}_by_key"))
    return _rendered(dialect, slots, "history", "history.index")


def lease_table(lease: Lease, dialect: Dialect) -> list[str]:
    """The table of leases; many of them share it."""
    types = sql_dialect(dialect).ddl_types
    return _rendered(dialect, {"table": qualified(lease.table), **types}, "lease.table")


def inbox_tables(inbox: Inbox, dialect: Dialect) -> list[str]:
    """The table of an inbox and its indexes."""
    *schema, table = split_qualified(inbox.table)
    slots = {"table": qualified(inbox.table), "bare_table": identifier(table)}
    for index in ("work", "line", "ended"):
        # as above
        parts = (*schema, f"{table}_{index}") if dialect == "sqlite" else (f"{table}_{index}",)
        slots[f"{index}_index"] = ".".join(identifier(part) for part in parts)
    names = ("inbox.table", "inbox.index.work", "inbox.index.line", "inbox.index.ended")
    return _rendered(dialect, slots, *names)


def schedule_table(table: str, dialect: Dialect) -> list[str]:
    """The table of schedules."""
    types = sql_dialect(dialect).ddl_types
    return _rendered(dialect, {"table": qualified(table), **types}, "schedule.table")


def _rendered(dialect: Dialect, slots: dict[str, str], *names: str) -> list[str]:
    found = templates("raceproof.schema", f"{dialect}.sql")
    return [found[name].prepare(slots, "dollar").text for name in names]
