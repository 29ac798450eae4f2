"""Leases on PostgreSQL and SQLite: statements that each decide by themselves."""

import time
from collections.abc import Hashable
from datetime import datetime
from typing import Any, ClassVar

from raceproof.leases.declared import Lease
from raceproof.leases.outcome import LeadAnswer, Leading, Led, StepDownAnswer, SteppedDown
from raceproof.look import moment
from raceproof.moves.sqlite import bindable
from raceproof.moves.words import PostgresWords, SqliteWords
from raceproof.outcome import Conflict, Unknown
from raceproof.quoting import parameter, qualified
from raceproof.statement import (
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Rows,
    Style,
    need_sql,
    templates,
)


class PostgresLeases:
    """The programs of leases on PostgreSQL; texts are rendered once and kept."""

    file = "postgres.sql"
    words: Any = PostgresWords()
    types: ClassVar = {"number": "bigint", "time": "timestamptz", "boolean": "boolean"}

    def __init__(self, style: Style) -> None:
        self._style: Style = style
        self._prepared: dict[Hashable, Prepared] = {}

    def acquire(
        self, lease: Lease, by: str, session: bool, locked: bool, now: datetime | None
    ) -> Program[LeadAnswer]:
        """Become the holder, or learn who is. `session`: this holder has an advisory lock; `locked`: it has it now."""
        deadline = time.monotonic() + lease.seconds
        values = self._values(lease, by, now) | {"session": session, "locked": locked}
        try:
            rows = yield self._text("lease.acquire", lease, now).bind(values)
            if rows:
                return Leading(lease, by, int(rows[0][0]), deadline, taken_over=bool(rows[0][1]))
            return (yield from self.look(lease, now, lock=True))
        except AcknowledgementLost as error:
            return Unknown(lease.name, lease, None, error.__cause__ or error)
        except Conflicted as error:
            return Conflict(lease.name, lease, error.__cause__ or error)

    def renew(
        self, lease: Lease, by: str, epoch: int, now: datetime | None, session: bool = False
    ) -> Program[LeadAnswer]:
        """Hold it for another time, if this is still the holder's epoch; `session`: it has its advisory lock now."""
        return (yield from self._own("lease.renew", lease, by, epoch, now, session))

    def release(self, lease: Lease, by: str, epoch: int, now: datetime | None) -> Program[StepDownAnswer]:
        """Step down: the next one need not wait."""
        answer = yield from self._own("lease.release", lease, by, epoch, now)
        return SteppedDown(lease, by, epoch) if isinstance(answer, Leading) else answer

    def _own(
        self, name: str, lease: Lease, by: str, epoch: int, now: datetime | None, session: bool = False
    ) -> Program[LeadAnswer]:
        deadline = time.monotonic() + lease.seconds
        values = self._values(lease, by, now) | {"epoch": epoch, "session": session}
        try:
            rows = yield self._text(name, lease, now).bind(values)
            if rows:
                return Leading(lease, by, epoch, deadline)
            return (yield from self.look(lease, now, lock=True))
        except AcknowledgementLost as error:
            return Unknown(lease.name, lease, None, error.__cause__ or error)
        except Conflicted as error:
            return Conflict(lease.name, lease, error.__cause__ or error)

    def look(self, lease: Lease, now: datetime | None, lock: bool = False) -> Program[Led]:
        """Who holds it; `lock`: for an answer, which may not be given before the commit it rests on is replicated."""
        rows = yield self._text("lease.look", lease, now, lock).bind(self._values(lease, "", now))
        if not rows:
            return Led(lease, None, 0, None)
        holder, epoch, until, holds = rows[0]
        return Led(lease, holder if holds else None, int(epoch), None if until is None else moment(until))

    def listed(self, lease: Lease, now: datetime | None) -> Program[Rows]:
        """All leases of the table: name, holder, epoch, until, held, since."""
        return (yield self._text("lease.list", lease, now).bind(self._values(lease, "", now)))

    def _values(self, lease: Lease, by: str, now: datetime | None) -> dict[str, Any]:
        values = {"name": lease.name, "by": by, "lease": lease.seconds, "now": now}
        return dict(zip(values, self._bindable(tuple(values.values())), strict=True))

    def _bindable(self, values: Any) -> Any:
        return values

    def _now(self, now: datetime | None) -> str:
        return "statement_timestamp()" if now is None else parameter("now") + "::timestamptz"

    def _text(self, name: str, lease: Lease, now: datetime | None, lock: bool = False) -> Prepared:
        key = (name, lease.table, now is None, lock)
        prepared = self._prepared.get(key)
        if prepared is None:
            moment = self._now(now)
            ends = self.words.plus(moment, parameter("lease"))
            slots = {
                "table": qualified(lease.table),
                "now": moment,
                "ends": ends,
                "clock": self.words.microseconds(moment),
                # more than twice its length from now; a longer lease has an epoch that is no later than the clock
                "ahead": f"(t.until > {self.words.plus(ends, parameter('lease'))}"
                f" AND t.epoch > {self.words.microseconds(moment)})",
                "grown": self.words.greatest("t.epoch + 1", "EXCLUDED.epoch + 1"),
                "lock": "FOR KEY SHARE OF t" if lock else "",
                **self.types,
            }
            prepared = templates("raceproof.leases", self.file)[name].prepare(slots, self._style)
            self._prepared[key] = prepared
        return prepared


class SqliteLeases(PostgresLeases):
    """The same on SQLite."""

    file = "sqlite.sql"
    words: Any = SqliteWords()
    types: ClassVar = {"number": "INTEGER", "time": "TEXT", "boolean": "INTEGER"}

    def _bindable(self, values: Any) -> Any:
        return bindable(values)

    def _now(self, now: datetime | None) -> str:
        return "strftime('%Y-%m-%d %H:%M:%f', 'now')" if now is None else parameter("now")


def lease_ddl(dialect: str, table: str = "raceproof_lease") -> str:
    """The table of leases, for the user to create."""
    need_sql(dialect)
    programs = PostgresLeases if dialect == "postgres" else SqliteLeases
    slots = {"table": qualified(table), **programs.types}
    return templates("raceproof.leases", f"{dialect}.sql")["lease.table"].prepare(slots, "dollar").text
