"""Waiting for the store to say so: ask again until it does. The deadline is a safety net."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_PATIENCE = 60.0


def until(ask: Callable[[], T], satisfied: Callable[[T], bool]) -> T:
    """Ask again and again until the answer is the one that is waited for."""
    deadline = time.monotonic() + _PATIENCE
    while not satisfied(answer := ask()):
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up waiting, the last answer was {answer}")
    return answer
