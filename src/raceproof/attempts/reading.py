"""Attempts as callers and tools read them. Nothing is decided here."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from raceproof.attempts.declared import Attempts
from raceproof.attempts.request import StartRequest
from raceproof.kernel.dialect import SqlDialect, Texts
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_text
from raceproof.kernel.quoting import identifier
from raceproof.kernel.redis import RedisDialect, parts_of_text, text_of
from raceproof.kernel.statement import Prepared, Program, Rows, Statement
from raceproof.moves.reading import RedisReading

PATIENCE = 100
"""How often a pointer is read again that has changed meanwhile."""


class SqlAttemptReading(ABC):
    """On an SQL database."""

    def __init__(self, dialect: Any) -> None:
        self.dialect: SqlDialect = dialect
        self._columns = dialect.columns
        self.texts: Texts = dialect.texts("attempts", "attempt.sql", "reading.sql")

    def current(self, asked: StartRequest) -> Program[dict[str, Any] | None]:
        """The owner's active attempt."""
        names = list((yield from self._columns(asked.attempts.lifecycle)))
        slots = self.slots(asked) | {"row": ", ".join(f"t.{identifier(name)}" for name in names) or "1"}
        rows = yield self.texts.render("attempt.current", slots).bind(self.values(asked))
        return dict(zip(names, rows[0], strict=True)) if rows else None

    def expired(self, asked: StartRequest, limit: int, of_owner: bool = False) -> Program[Rows]:
        """The key columns of open attempts whose time is over; `of_owner`: only those of the owner that is named."""
        name = "attempt.expired_of" if of_owner else "attempt.expired"
        return (yield self.text(name, asked).bind(self.values(asked) | {"limit": limit}))

    @abstractmethod
    def values(self, asked: StartRequest) -> dict[str, Any]: ...
    @abstractmethod
    def slots(self, asked: StartRequest) -> dict[str, str]: ...
    @abstractmethod
    def text(self, name: str, asked: StartRequest) -> Prepared: ...


class RedisAttemptReading:
    """On Redis and Valkey."""

    def __init__(self, dialect: RedisDialect) -> None:
        self.dialect = dialect
        self._reading = RedisReading(dialect)

    def current(self, asked: StartRequest) -> Program[dict[str, Any] | None]:
        """The owner's active attempt: the one that the pointer names, and names still if it turns out to have ended."""
        pointer, _ = self.keys_of(asked)
        (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
        for _ in range(PATIENCE):
            if found is None:
                return None
            row = yield from self._reading.read(
                asked.attempts.lifecycle, parts_of_text(asked.attempts.lifecycle, text_of(found))
            )
            if row is not None and (yield from self._is_active(asked, row)):
                return row
            before = found
            (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
            if found == before:
                return None
        return None

    def _is_active(self, asked: StartRequest, row: Mapping[str, Any]) -> Program[bool]:
        """Whether an attempt is open and its time is not over."""
        attempts = asked.attempts
        if row.get(attempts.lifecycle.column) not in attempts.open:
            return False
        began = row.get(attempts.started or "")
        if attempts.ttl is None or not began:
            return True
        (clock,) = yield Statement("time", "TIME")
        now = asked.now.timestamp() if asked.now else float(clock[0]) + float(clock[1]) / 1e6
        return float(began) + attempts.ttl > now

    def expired(self, asked: StartRequest, limit: int, of_owner: bool = False) -> Program[Rows]:
        """None: a key of Redis ends by itself."""
        return []
        yield

    def keys_of(self, asked: StartRequest) -> tuple[str, str]:
        """The pointer of the owner and the set of its attempts, each of its own tenant (P9)."""
        attempts = asked.attempts
        return self.keys(attempts, attempts.owner_text(asked.owner, asked.tenant))

    def keys(self, attempts: Attempts, owner: str) -> tuple[str, str]:
        spec = attempts.lifecycle
        if self.dialect.cluster and spec.tenant != attempts.owner:
            raise CallError(
                f"{attempts}: on a cluster the owner must be the tenant of {spec}, so that its keys are in one slot"
            )
        # the owner is the tenant: its hash tag is that of its rows, in which a key of several columns is escaped
        tagged = f"{{{key_text((owner, ''))[:-1]}}}" if self.dialect.cluster else owner
        active, owned = (attempts.active_key or f"{spec.table}/active", attempts.owned_key or f"{spec.table}/owned")
        return f"{active}:{tagged}", f"{owned}:{tagged}"
