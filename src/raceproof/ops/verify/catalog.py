"""What a database knows of a table, whichever kind of database it is."""

from dataclasses import dataclass
from typing import Any

from raceproof.kernel.quoting import identifier, qualified, split_qualified
from raceproof.kernel.statement import Prepared, Program, Style, templates
from raceproof.schema import Dialect


@dataclass(frozen=True, slots=True)
class Catalog:
    """The catalog of PostgreSQL or SQLite."""

    dialect: Dialect
    style: Style

    def columns(self, table: str) -> Program[dict[str, str]]:
        """The columns of a table, each with its type; none if it does not exist."""
        rows = yield from self.rows("verify.columns", table)
        return {name: str(type_) for name, type_, *_ in rows}

    def rows(self, name: str, table: str) -> Program[list[Any]]:
        """What one of our questions finds about a table; nothing if it does not exist."""
        *schema, bare = split_qualified(table)
        place: dict[str, Any] = {"table": bare, "schema": schema[-1] if schema else None}
        if self.dialect == "postgres":
            known = yield self._text("verify.table", {}).bind({"table": qualified(table)})
            place = {"relation": known[0][0]}
            if place["relation"] is None:
                return []
        slots = {"catalog": ".".join(identifier(part) for part in (*schema, "sqlite_master"))}
        return list((yield self._text(name, slots).bind(place)))

    def _text(self, name: str, slots: dict[str, str]) -> Prepared:
        return templates("raceproof.ops.verify", f"{self.dialect}.sql")[name].prepare(slots, self.style)
