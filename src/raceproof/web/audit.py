"""The audit: each change that a person asks for here, written before it is made and again with what came of it.

Promise: no line, no change; lines are only ever added. The change itself is the library's own, and has its place in the
history of its row too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

from raceproof.look import moment
from raceproof.moves.redis_texts import text_of
from raceproof.quoting import qualified
from raceproof.statement import Program, Statement, need_sql, templates
from raceproof.store import AsyncStore
from raceproof.web.looking.texts import names, statement
from raceproof.web.source import Source

PAGE = 50
_LAST = 2**62
_KEPT_ON_REDIS = 100_000
_FIELDS = ("call", "at", "actor", "action", "target", "key", "reason", "outcome", "told")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that somebody asked for; `outcome` is "asked" until its end is known."""

    call: str
    at: datetime | None
    actor: str
    action: str
    target: str
    key: str
    reason: str
    outcome: str = "asked"
    told: str = ""


def audit_ddl(dialect: Literal["postgres", "sqlite"], table: str = "raceproof_audit") -> str:
    """The table of the audit, for the user to create; Redis needs none."""
    need_sql(dialect)
    slots = {"table": qualified(table)}
    return templates("raceproof.web", f"{dialect}.sql")["web.audit"].prepare(slots, "dollar").text


class Audit:
    """The lines, in a table or, on Redis, in a stream of this name."""

    def __init__(self, source: Source, table: str) -> None:
        self._source = source
        self.table = table

    async def exists(self) -> bool:
        """Whether there is a place to write to."""

        def look(store: AsyncStore) -> Program[bool]:
            if store.dialect == "redis":
                return True
            ((found,),) = yield statement(store, "web.exists", {}, names(self.table))
            return bool(found)

        return await self._source.run(look)

    async def ddl(self) -> str:
        """What has to be run before the first change."""
        dialect = (await self._source.store()).dialect
        return (
            ""
            if dialect == "redis"
            else audit_ddl("postgres" if dialect == "postgres" else "sqlite", self.table)
        )

    async def create(self) -> None:
        """Make the table, for those who have asked for it."""
        text = await self.ddl()
        if text:
            store = await self._source.store()

            def make(_: AsyncStore) -> Program[None]:
                yield Statement("web.audit", text)

            await store._driver.run(make(store))

    async def ask(self, actor: str, action: str, target: str, key: str, reason: str) -> Line:
        """Before a change: who wants what, and why."""
        line = Line(uuid4().hex, None, actor, action, target, key, reason)
        await self._write(line)
        return line

    async def tell(self, line: Line, outcome: str, told: str = "") -> None:
        """After it: what came of it."""
        await self._write(replace(line, outcome=outcome, told=told[:500]))

    async def _write(self, line: Line) -> None:
        values = {name: getattr(line, name) for name in _FIELDS if name != "at"}

        def note(store: AsyncStore) -> Program[None]:
            if store.dialect == "redis":
                ((seconds, micros),) = yield Statement("time", "TIME")
                at = f"{int(seconds)}.{int(micros):06d}"
                fields = [part for field in {**values, "at": at}.items() for part in field]
                given = (self.table, "MAXLEN", "~", _KEPT_ON_REDIS, "*", *fields)
                yield Statement("web.note", "XADD", given)
                return
            yield statement(store, "web.note", {"table": qualified(self.table)}, values)

        store = await self._source.store()
        await store._driver.run(note(store))

    async def page(self, before: str | None) -> tuple[list[Line], str | None]:
        """The newest lines, each change once with its end; and where the next page begins."""

        def read(store: AsyncStore) -> Program[list[tuple[str, Line]]]:
            if store.dialect == "redis":
                end = f"({before}" if before else "+"
                (entries,) = yield Statement(
                    "web.noted", "XREVRANGE", (self.table, end, "-", "COUNT", 2 * PAGE)
                )
                return [(text_of(number), _line(_fields(fields))) for number, fields in entries]
            number = int(before) if before and before.isdigit() else _LAST
            values = {"before": number, "limit": 2 * PAGE}
            rows = yield statement(store, "web.noted", {"table": qualified(self.table)}, values)
            return [(str(row[0]), _line(dict(zip(_FIELDS, row[1:], strict=True)))) for row in rows]

        found = await self._source.run(read)
        ended = {line.call for _, line in found if line.outcome != "asked"}
        lines = [line for _, line in found if line.outcome != "asked" or line.call not in ended]
        return lines, found[-1][0] if len(found) == 2 * PAGE else None


def _fields(found: Any) -> dict[str, Any]:
    pairs: Sequence[Any] = (
        list(found.items()) if isinstance(found, dict) else list(zip(found[::2], found[1::2], strict=True))
    )
    return {text_of(name): text_of(value) for name, value in pairs}


def _line(fields: dict[str, Any]) -> Line:
    return Line(**{**fields, "at": moment(fields["at"])})
