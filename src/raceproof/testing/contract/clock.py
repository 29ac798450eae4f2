"""Time in the contract: a moment that the tests choose, and a store that answers late. No test sleeps."""

import time
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from raceproof.kernel.statement import Program

T = TypeVar("T")

NOON = datetime(2030, 1, 2, 12, 0, 0, 250_000, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """The moment this many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def answered_late(program: Program[T]) -> Program[tuple[T, float]]:
    """Run a program, but let the clock move on before each result; also return when the first statement was sent."""
    statement = next(program)
    sent = time.monotonic()
    while True:
        rows = yield statement
        while time.monotonic() == sent:
            pass
        try:
            statement = program.send(rows)
        except StopIteration as ended:
            return ended.value, sent
