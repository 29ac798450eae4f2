"""The history table: one for a database, shared by all lifecycles that name it."""

from typing import Any, Literal

from raceproof.lifecycle import Lifecycle, spec_of
from raceproof.quoting import identifier, qualified, split_qualified
from raceproof.spec import Spec
from raceproof.statement import need_sql, templates

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


def history_ddl(of: type[Lifecycle[Any]] | Spec[Any], dialect: Dialect) -> str:
    """The DDL of the history that this lifecycle declares; empty if it declares none."""
    return "\n".join(history_statements(of, dialect))


def history_statements(of: type[Lifecycle[Any]] | Spec[Any], dialect: Dialect) -> list[str]:
    """The same as a list, one statement each."""
    need_sql(dialect)
    spec = spec_of(of)
    if spec.history is None:
        return []
    *schema, table = split_qualified(spec.history.table)
    slots = {"history": qualified(spec.history.table), "bare": identifier(table)}
    slots["index"] = identifier(f"{table}_by_key")
    # an index is where its table is: PostgreSQL says so by the table, SQLite by the index
    slots["index_in_schema"] = ".".join(identifier(part) for part in (*schema, f"{table}_by_key"))
    found = templates("raceproof.schema", f"{dialect}.sql")
    return [found[name].prepare(slots, "dollar").text for name in ("history", "history.index")]
