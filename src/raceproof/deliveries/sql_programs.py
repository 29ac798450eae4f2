"""Deliveries on PostgreSQL and SQLite, as programs over the statements in `postgres.sql` and `sqlite.sql`."""

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.deliveries import answer, sql
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.outcome import MarkAnswer, Marked, Turn, TurnAnswer
from raceproof.deliveries.request import TurnRequest, mark_values
from raceproof.moves.sqlite import bindable
from raceproof.moves.sqlite_keys import found_otherwise
from raceproof.moves.words import PostgresWords, SqliteWords
from raceproof.outcome import Conflict, Missing, Unknown
from raceproof.quoting import parameter
from raceproof.statement import (
    BEGIN,
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Rows,
    Style,
    templates,
    transaction,
    trying_again,
)


class PostgresDeliveries:
    """The programs of deliveries on PostgreSQL; texts are rendered once and kept."""

    file = "postgres.sql"
    words: Any = PostgresWords()

    def __init__(self, style: Style, in_transaction: Callable[[], bool]) -> None:
        self._style: Style = style
        self._in_transaction = in_transaction
        self._prepared: dict[Hashable, Prepared] = {}

    def take(self, request: TurnRequest) -> Program[TurnAnswer]:
        """Take the turn to send, or learn who has it."""
        try:
            return (yield from self._take(request, time.monotonic() + request.delivery.stale))
        except AcknowledgementLost as error:
            return Unknown(request.key, request.delivery, None, error.__cause__ or error)
        except Conflicted as error:
            return Conflict(request.key, request.delivery, error.__cause__ or error)

    def _take(self, request: TurnRequest, deadline: float) -> Program[TurnAnswer]:
        text = self._text("delivery.take", request.delivery, request.now, request.returning)
        rows = yield from self._decided(text, self._values(request.values()))
        if not rows:
            return Missing(request.key, request.delivery)
        state, holder, since, doubt, fence, attempts, *row = rows[0]
        if fence is None:
            return answer.no_turn(request, state, holder, since)
        return answer.turn(request, fence, attempts, doubt, row or None, deadline)

    def mark(
        self, turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[MarkAnswer | Turn]:
        """Say how the turn has ended; or, with SENDING, that it goes on."""
        try:
            return (yield from self._mark(turn, state, error, now))
        except AcknowledgementLost as lost:
            return Unknown(turn.key, turn.move, None, lost.__cause__ or lost)
        except Conflicted as lost:
            return Conflict(turn.key, turn.move, lost.__cause__ or lost)

    def _mark(
        self, turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[MarkAnswer | Turn]:
        deadline = time.monotonic() + turn.move.stale
        values = self._values(dict(mark_values(turn, state, error, now)))
        rows = yield from self._decided(self._marking("delivery.mark", turn.move, state, now), values)
        if rows:
            if state is DeliveryState.SENDING:
                return replace(turn, fence=rows[0][0], state=state, deadline=deadline)
            return Marked(turn.key, turn.move, state)
        found = yield self._lost(turn.move, now).bind(values)
        return answer.lost(turn, found[0][0], found[0][1]) if found else Missing(turn.key, turn.move)

    def resolve(self, request: TurnRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        """End what nobody knows the end of, after somebody has looked."""
        try:
            return (yield from self._resolve(request, state, error))
        except AcknowledgementLost as lost:
            return Unknown(request.key, request.delivery, None, lost.__cause__ or lost)
        except Conflicted as lost:
            return Conflict(request.key, request.delivery, lost.__cause__ or lost)

    def _resolve(self, request: TurnRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        values = self._values({**request.values(), "error": error})
        marking = self._marking("delivery.resolve", request.delivery, state, request.now)
        rows = yield from self._decided(marking, values)
        if rows:
            return Marked(request.key, request.delivery, state)
        found = yield self._lost(request.delivery, request.now).bind(values)
        if not found:
            return (yield from self._missing(request))
        return answer.no_turn(request, found[0][0], found[0][1], found[0][2])

    def look(self, request: TurnRequest) -> Program[str | None]:
        """How the delivery stands, in one word; None if there is no such row. Nothing is written."""
        values = self._values(request.values())
        rows = yield self._text("delivery.look", request.delivery, request.now, ()).bind(values)
        return str(rows[0][0]) if rows else None

    def listed(
        self, delivery: Delivery, limit: int, tenant: Any, now: datetime | None, uncertain: bool = False
    ) -> Program[Rows]:
        """What is under way or unknown, or only the latter: state, holder, since, attempts, error and the key's columns."""
        values = self._values({"limit": limit, "key_0": tenant, "stale": delivery.stale, "now": now})
        return (yield self._listing(delivery, now, uncertain).bind(values))

    def _missing(self, request: TurnRequest) -> Program[Missing[Any]]:
        return Missing(request.key, request.delivery)
        yield

    def _decided(self, text: Prepared, values: dict[str, Any]) -> Program[Rows]:
        """One decision; outside of the caller's transactions a conflict with another one is no reason to give up (P7)."""
        return (yield from trying_again(text.bind(values), alone=not self._in_transaction()))

    def _values(self, values: dict[str, Any]) -> dict[str, Any]:
        return values

    def _now(self, now: datetime | None) -> str:
        return "statement_timestamp()" if now is None else parameter("now") + "::timestamptz"

    def _text(
        self, name: str, delivery: Delivery, now: datetime | None, returning: tuple[str, ...]
    ) -> Prepared:
        key = (name, delivery, now is None, returning)
        prepared = self._prepared.get(key)
        if prepared is None:
            slots = sql.slots(delivery, self.words, self._now(now), returning)
            prepared = self._prepared[key] = self._template(name).prepare(slots, self._style)
        return prepared

    def _lost(self, delivery: Delivery, now: datetime | None) -> Prepared:
        """Look at the row for an answer, which may not be given before the commit it rests on is replicated."""
        key = ("delivery.look", delivery, now is None, "lock")
        prepared = self._prepared.get(key)
        if prepared is None:
            slots = sql.slots(delivery, self.words, self._now(now)) | {"lock": "FOR KEY SHARE OF t"}
            prepared = self._prepared[key] = self._template("delivery.look").prepare(slots, self._style)
        return prepared

    def _listing(self, delivery: Delivery, now: datetime | None, uncertain: bool) -> Prepared:
        key = ("delivery.list", delivery, now is None, uncertain)
        prepared = self._prepared.get(key)
        if prepared is None:
            slots = sql.slots(delivery, self.words, self._now(now))
            slots["only_doubt"] = slots["doubt"] if uncertain else ""
            prepared = self._prepared[key] = self._template("delivery.list").prepare(slots, self._style)
        return prepared

    def _marking(self, name: str, delivery: Delivery, state: DeliveryState, now: datetime | None) -> Prepared:
        key = (name, delivery, now is None, state)
        prepared = self._prepared.get(key)
        if prepared is None:
            slots = sql.slots(delivery, self.words, self._now(now))
            slots["marks"] = sql.marks(delivery, self.words, self._now(now), state)
            prepared = self._prepared[key] = self._template(name).prepare(slots, self._style)
        return prepared

    def _template(self, name: str) -> Any:
        return templates("raceproof.deliveries", self.file)[name]


class SqliteDeliveries(PostgresDeliveries):
    """The same on SQLite, where taking a turn and telling who has it are two statements under the write lock."""

    file = "sqlite.sql"
    words: Any = SqliteWords()

    def _take(self, request: TurnRequest, deadline: float) -> Program[TurnAnswer]:
        lock = self._text("delivery.lock", request.delivery, None, ())
        return (
            yield from transaction(BEGIN._replace(params=(lock.text,)), self._under_lock(request, deadline))
        )

    def _under_lock(self, request: TurnRequest, deadline: float) -> Program[TurnAnswer]:
        values = self._values(request.values())
        found = yield self._text("delivery.look", request.delivery, request.now, ()).bind(values)
        if not found:
            return (yield from self._missing(request))
        state, holder, since, may, doubt = found[0]
        taken: Rows = ()
        if may:
            text = self._text("delivery.take", request.delivery, request.now, request.returning)
            taken = yield text.bind(values)
        if not taken:
            return answer.no_turn(request, state, holder, since)
        fence, attempts, *row = taken[0]
        return answer.turn(request, fence, attempts, doubt, row or None, deadline)

    def _missing(self, request: TurnRequest) -> Program[Missing[Any]]:
        delivery = request.delivery
        yield from found_otherwise(delivery, delivery.table, delivery.key_columns, request.parts, self._style)
        return Missing(request.key, delivery)

    def look(self, request: TurnRequest) -> Program[str | None]:
        state = yield from super().look(request)
        if state is None:
            yield from self._missing(request)
        return state

    def _values(self, values: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(values, bindable(tuple(values.values())), strict=True))

    def _now(self, now: datetime | None) -> str:
        return "strftime('%Y-%m-%d %H:%M:%f', 'now')" if now is None else parameter("now")
