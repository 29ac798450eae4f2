"""Deliveries on Redis and Valkey: each decision is one run of a script; see `redis.lua` beside this file."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.program import DeliveryPrograms, Found, Won
from raceproof.deliveries.reading import RedisDeliveryReading
from raceproof.deliveries.request import SendRequest
from raceproof.kernel.keys import key_text
from raceproof.kernel.lua import Expression, arguments, in_turn, script
from raceproof.kernel.redis import RedisDialect, Scripts, seconds_of, text_of
from raceproof.kernel.statement import Program, Statement

FILES = (("raceproof.kernel", "counting.lua"), ("raceproof.deliveries", "redis.lua"))
_NAMES = {action: f"delivery.{action}" for action in ("take", "mark", "resolve", "look")}


class RedisDeliveries(RedisDeliveryReading, DeliveryPrograms):
    """The programs of deliveries."""

    def __init__(self, dialect: RedisDialect) -> None:
        self._dialect = dialect

    def _taken(self, request: SendRequest) -> Program[Won | Found | None]:
        delivery = request.delivery
        given = {"by": request.by} if delivery.holder else {}
        row: Any = yield self._script(
            "take", delivery, request.parts, request.state, given, request.now, request.returning
        )
        if not isinstance(row, list):
            return Won(text_of(row))
        fence, *found = map(text_of, row or (None,))
        if fence is None:
            return Found(*found) if found else None
        doubt, attempts, *columns = found
        return Won(fence, doubt, attempts, columns)

    def _recorded(
        self,
        action: str,
        delivery: Delivery,
        parts: tuple[Any, ...],
        state: DeliveryState,
        error: str | None,
        now: datetime | None,
        fence: Any = None,
    ) -> Program[Won | Found | None]:
        given = {} if fence is None else {"given_fence": fence}
        if error:
            given["given_error"] = error
        row: Any = yield self._script(action, delivery, parts, state, given, now)
        if not isinstance(row, list):
            return Won(text_of(row))
        return Found(*map(text_of, row[1:])) if row else None

    def look(self, request: SendRequest) -> Program[str | None]:
        """How the delivery stands, in one word; None if there is no such row."""
        state = DeliveryState.READY
        row: Any = yield self._script("look", request.delivery, request.parts, state, {}, request.now)
        return str(text_of(row[1])) if row else None

    def _script(
        self,
        action: str,
        delivery: Delivery,
        parts: tuple[Any, ...],
        state: DeliveryState,
        given: dict[str, str],
        now: datetime | None,
        returning: tuple[str, ...] = (),
    ) -> Statement:
        if now is not None:
            given["given_now"] = seconds_of(now)
        made = _SCRIPTS.get(delivery, action, state, tuple(given), returning)
        key = self._dialect.row_of_text(delivery, key_text(parts))
        return Statement(_NAMES[action], made, list(given.values()), (key,))


def script_of_delivery(
    delivery: Delivery, action: str, state: DeliveryState, given: Sequence[str], returning: Sequence[str] = ()
) -> str:
    """`redis.lua` for one thing to do with a delivery, for callers who give these values."""
    words = arguments(given)
    looked_at = [delivery.delivering, delivery.delivered]
    seen: dict[str, Any] = {"seen_state": None, "seen_holder": None}
    # a row mostly has its key as a field too; whether there is one without any of these is asked only then
    key = delivery.key_columns[-1]
    for name, column in (("state", delivery.state), ("holder", delivery.holder), ("key", key)):
        if column and not (name == "key" and action == "mark"):
            looked_at.append(column)
            seen[f"seen_{name}"] = Expression(f"seen[{len(looked_at)}]")
    fields: list[Any] = [delivery.delivering, Expression("fence")]
    if delivery.state:
        # P7: who only reserves has sent nothing, but the one before may have
        kept = Expression("doubt and 'sending' or 'reserved'") if state is DeliveryState.RESERVED else state
        fields += [delivery.state, kept]
    if delivery.holder:
        fields += [delivery.holder, words.get("by")]
    constants = {
        **dict.fromkeys(("given_now", "given_fence", "given_error")),
        **words,
        **seen,
        "looked_at": in_turn(looked_at),
        "permit_fields": in_turn(fields),
        "delivering": delivery.delivering,
        "delivered": delivery.delivered,
        "state": state,
        "state_column": delivery.state,
        "error_column": delivery.error,
        "attempts_column": delivery.attempts,
        "stale_after": delivery.stale,
        "hold": delivery.policy == "hold",
        "sending": state is DeliveryState.SENDING,
        "arrived": state is DeliveryState.DELIVERED,
        "over": state in (DeliveryState.DELIVERED, DeliveryState.FAILED),
        "returning": bool(returning),
        "returned": in_turn(returning),
    }
    return script(FILES, action, constants)


_SCRIPTS = Scripts(script_of_delivery)
