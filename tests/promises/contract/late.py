"""A store that takes its time to answer, without anybody sleeping."""

import time
from typing import TypeVar

from raceproof.kernel.statement import Program

T = TypeVar("T")


def answered_late(program: Program[T]) -> Program[tuple[T, float]]:
    """What a program answers, and when its first statement was sent; time goes by before it hears of any result."""
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
