"""One event for each decision, reported to subscribers in exactly one place (`tell`).

A subscriber is any callable; it runs in the caller's thread right after the answer is known, so it must be quick. What it
raises is logged and never reaches the caller. In the caller's own transaction an event says what was decided, which the
caller may still roll back: `settled` is False then.
"""

import logging
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from raceproof.moves.answers import Answer

__all__ = ["Event", "log_to", "subscribe", "subscribed"]

log = logging.getLogger("raceproof")


@dataclass(frozen=True, slots=True)
class Event:
    """A decision: what was asked (`operation`, `lifecycle`, `move`, `key`, `by`) and what came of it (`outcome`)."""

    operation: str
    outcome: str
    lifecycle: str
    move: str
    key: Any
    by: str | None
    settled: bool
    started: float
    """Monotonic seconds, from before the request."""
    answer: "Answer[Any, Any]"
    tenant: Any = None
    """The tenant of the row, where the lifecycle or the delivery has a tenant column."""


Subscriber = Callable[[Event], object]

subscribers: tuple[Subscriber, ...] = ()


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Subscribe to every decision; call the result to unsubscribe."""
    global subscribers
    subscribers = (*subscribers, subscriber)

    def stop() -> None:
        global subscribers
        subscribers = tuple(one for one in subscribers if one is not subscriber)

    return stop


@contextmanager
def subscribed(subscriber: Subscriber) -> "Iterator[None]":
    stop = subscribe(subscriber)
    try:
        yield
    finally:
        stop()


def tell(event: Event) -> None:
    """Hand an event to all subscribers. The only place where events come from."""
    for subscriber in subscribers:
        try:
            subscriber(event)
        except Exception:
            log.exception("a subscriber of raceproof events failed on %s %s", event.operation, event.outcome)


def log_to(logger: logging.Logger = log, level: int = logging.INFO) -> Callable[[], None]:
    """Write one log line for each decision, as `[MOVE_MOVED] Command.ack 'c-42' …`; call what comes back to stop."""

    def line(event: Event) -> None:
        tag = f"{event.operation}_{event.outcome}".upper().replace(" ", "_")
        logger.log(level, "[%s] %s by=%s", tag, event.answer, event.by or "-")

    return subscribe(line)
