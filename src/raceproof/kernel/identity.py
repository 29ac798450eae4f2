"""Who this process is: ids of its calls and of what it holds, never the same after a restart or a fork.

They are compared with nothing but themselves. A call whose acknowledgement was lost is asked about by its id.
"""

import os
import secrets
from collections.abc import Iterator
from itertools import count

_incarnation = ""
_numbers: Iterator[int] = count(1)


def become(incarnation: str, numbers: Iterator[int]) -> None:
    """Be this one from now on; the explorer, which plays many processes in one, says who is at it."""
    global _incarnation, _numbers
    _incarnation, _numbers = incarnation, numbers


def current() -> tuple[str, Iterator[int]]:
    """Who it is now; `become` takes it back."""
    return _incarnation, _numbers


def _be_born() -> None:
    become(secrets.token_hex(8), count(1))


_be_born()
os.register_at_fork(after_in_child=_be_born)


def default_actor() -> str:
    """Who claims, if the caller does not say."""
    return f"worker-{_incarnation}"


def next_call() -> str:
    """An id for one call."""
    return f"{_incarnation}-{next(_numbers):x}"
