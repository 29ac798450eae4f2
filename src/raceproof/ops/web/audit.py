"""The audit: each change made in the dashboard, recorded before it is made and again with its outcome.

Promise: no line, no change; lines are only added. The change itself goes through the library, and is in the history of its
row too. A dashboard for one tenant shows the lines about that tenant's rows alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

from raceproof.kernel.dialects import sql_dialect
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import parameter, qualified
from raceproof.kernel.redis import text_of
from raceproof.kernel.statement import Program, Statement, templates
from raceproof.ops.inspect import sql_of
from raceproof.ops.verify import Catalog
from raceproof.ops.web.queries.statements import statement
from raceproof.ops.web.source import Source
from raceproof.store import AsyncStore

PAGE = 50
_LAST = 2**62
_WINDOW = 5_000
_KEPT_ON_REDIS = 100_000
_FIELDS = ("call", "at", "actor", "action", "target", "key", "reason", "outcome", "detail")
Found = list[tuple[str, "Line"]]
"""Lines, each with its number."""


@dataclass(frozen=True, slots=True)
class Line:
    """One requested change; `outcome` is "asked" until its outcome is known."""

    call: str
    at: datetime | None
    actor: str
    action: str
    target: str
    key: str
    reason: str
    outcome: str = "asked"
    detail: str = ""
    tenant: str | None = None
    """The tenant of the row; None without a tenant, or for rows of several."""


def audit_ddl(dialect: Literal["postgres", "sqlite"], table: str = "raceproof_audit") -> str:
    """The DDL of the audit table; Redis needs none."""
    return _ddl(dialect, table, "web.audit")


def _ddl(dialect: str, table: str, name: str) -> str:
    sql_dialect(dialect)
    return templates("raceproof.ops.web", f"{dialect}.sql")[name].prepare({"table": qualified(table)}, "dollar").text


class Audit:
    """The lines, in a table or, on Redis, in a stream of this name."""

    def __init__(self, source: Source, table: str) -> None:
        self._source = source
        self.table = table

    async def missing(self) -> str:
        """The DDL required before the first change: the table, or its tenant column; empty if nothing is missing."""

        def look(store: AsyncStore) -> Program[str]:
            if store.dialect == "redis":
                return ""
            there = yield from _columns(store, self.table)
            if not there:
                return _ddl(store.dialect, self.table, "web.audit")
            lacks = store.tenant is not None and "tenant" not in there
            return _ddl(store.dialect, self.table, "web.audit_tenant") if lacks else ""

        return await self._source.run(look)

    async def create(self) -> None:
        """Create the table, or its missing column."""
        store = await self._source.store()
        if store.dialect == "redis":
            return
        there = await self._source.run(lambda store: _columns(store, self.table))
        if "tenant" in there:
            return
        text = _ddl(store.dialect, self.table, "web.audit_tenant" if there else "web.audit")

        def make(_: AsyncStore) -> Program[None]:
            yield Statement("web.audit", text)

        await store.run(make(store))

    async def ask(self, actor: str, action: str, target: str, key: str, reason: str, tenant: Any) -> Line:
        """Record a change before it is made; `tenant` is the tenant of the row, if it has one."""
        of = None if tenant is None else str(tenant)
        line = Line(uuid4().hex, None, actor, action, target, key, reason, tenant=of)
        await self._write(line)
        return line

    async def tell(self, line: Line, outcome: str, detail: str = "") -> None:
        """Record the outcome of a change."""
        await self._write(replace(line, outcome=outcome, detail=detail[:500]))

    async def _write(self, line: Line) -> None:
        values = {name: getattr(line, name) for name in (*_FIELDS, "tenant") if name != "at"}

        def note(store: AsyncStore) -> Program[None]:
            if store.dialect == "redis":
                ((seconds, micros),) = yield Statement("time", "TIME")
                known = {**values, "at": f"{int(seconds)}.{int(micros):06d}"}
                fields = [part for field in known.items() if field[1] is not None for part in field]
                given = (self.table, "MAXLEN", "~", _KEPT_ON_REDIS, "*", *fields)
                yield Statement("web.note", "XADD", given)
                return
            of_tenant = "tenant" in (yield from _columns(store, self.table))
            slots = {
                "table": qualified(self.table),
                "tenant_column": ", tenant" if of_tenant else "",
                "tenant_value": f", {parameter('tenant')}" if of_tenant else "",
            }
            yield statement(store, "web.note", slots, values)

        store = await self._source.store()
        await store.run(note(store))

    async def page(self, before: str | None) -> tuple[list[Line], str | None]:
        """The newest lines, each change once with its outcome; and where the next page begins."""

        def read(store: AsyncStore) -> Program[tuple[Found, str | None]]:
            if store.dialect == "redis":
                return self._of_stream(store, before)
            return self._of_table(store, before)

        found, following = await self._source.run(read)
        ended = {line.call for _, line in found if line.outcome != "asked"}
        return [line for _, line in found if line.outcome != "asked" or line.call not in ended], following

    def _of_stream(self, store: AsyncStore, before: str | None) -> Program[tuple[Found, str | None]]:
        limit = 2 * PAGE if store.tenant is None else _WINDOW
        given = (self.table, f"({before}" if before else "+", "-", "COUNT", limit)
        (entries,) = yield Statement("web.noted", "XREVRANGE", given)
        looked = [(text_of(number), _line(_fields(fields))) for number, fields in entries]
        found = [one for one in looked if store.tenant is None or one[1].tenant == str(store.tenant)]
        shown = found[: 2 * PAGE]
        if len(shown) == 2 * PAGE:
            return shown, shown[-1][0]
        return shown, looked[-1][0] if len(looked) == limit else None

    def _of_table(self, store: AsyncStore, before: str | None) -> Program[tuple[Found, str | None]]:
        name = "web.noted" if store.tenant is None else "web.noted_of_tenant"
        slots = {"table": qualified(self.table)}
        values: dict[str, Any] = {
            "before": min(int(before.partition("-")[0]), _LAST) if before else _LAST,
            "limit": 2 * PAGE,
            "window": _WINDOW,
            "tenant": None if store.tenant is None else str(store.tenant),
        }
        rows = yield statement(store, name, slots, values)
        found = [(str(row[0]), _line(dict(zip(_FIELDS, row[1:], strict=True)))) for row in rows]
        if len(found) == 2 * PAGE:
            return found, found[-1][0]
        if store.tenant is None:
            return found, None
        ends = yield statement(store, "web.noted_end", slots, {**values, "window": _WINDOW - 1})
        return found, str(ends[0][0]) if ends else None


def _columns(store: AsyncStore, table: str) -> Program[dict[str, str]]:
    return (yield from Catalog(sql_of(store).name, sql_of(store).style).columns(table))


def _fields(found: Any) -> dict[str, Any]:
    pairs: Sequence[Any] = (
        list(found.items()) if isinstance(found, dict) else list(zip(found[::2], found[1::2], strict=True))
    )
    return {text_of(name): text_of(value) for name, value in pairs}


def _line(fields: dict[str, Any]) -> Line:
    return Line(**{**fields, "at": moment(fields["at"])})
