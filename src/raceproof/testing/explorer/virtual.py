"""Virtual time and chance while a scenario is explored, for the thread that explores and for nobody else.

The same schedule must give the same trace, today and on another machine. So clocks show the run's own time, and what asks
for chance gets a stream that belongs to the process and its incarnation.
"""

import hashlib
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from raceproof.testing.explorer.loop import refuse

EPOCH = 1_767_225_600.0
"""When every run begins, by its own clock: 2026-01-01 00:00 UTC."""


class Chance:
    """Bytes that depend on a name and on how many were drawn before; nothing is worked out before it is asked for."""

    __slots__ = ("_drawn", "_name", "_random")

    def __init__(self, name: str) -> None:
        self._name = name
        self._drawn = 0
        self._random: random.Random | None = None

    def bytes(self, count: int) -> bytes:
        self._drawn += 1
        stream = b""
        while len(stream) < count:
            stream += hashlib.sha256(f"{self._name}/{self._drawn}/{len(stream)}".encode()).digest()
        return stream[:count]

    @property
    def random(self) -> random.Random:
        if self._random is None:
            self._random = random.Random(self._name)
        return self._random


_RANDOM = (
    "random",
    "uniform",
    "randint",
    "randrange",
    "choice",
    "choices",
    "sample",
    "shuffle",
    "gauss",
    "expovariate",
    "betavariate",
    "gammavariate",
    "normalvariate",
    "lognormvariate",
    "paretovariate",
    "vonmisesvariate",
    "weibullvariate",
    "triangular",
    "getrandbits",
    "randbytes",
)


@contextmanager
def virtual(clock: Callable[[], float], chance: Callable[[], Chance]) -> Iterator[None]:
    """While this lasts, this thread sees the run's clock and draws from the running process's chance."""
    here = threading.get_ident()
    patched: list[tuple[Any, str, Any]] = []

    def patch(module: Any, name: str, instead: Callable[..., Any]) -> None:
        original = getattr(module, name)

        def chosen(*args: Any, **options: Any) -> Any:
            return (instead if threading.get_ident() == here else original)(*args, **options)

        patched.append((module, name, original))
        setattr(module, name, chosen)

    for name in ("monotonic", "perf_counter"):
        patch(time, name, clock)
        patch(time, f"{name}_ns", lambda: int(clock() * 1e9))
    patch(time, "time", lambda: EPOCH + clock())
    patch(time, "time_ns", lambda: int((EPOCH + clock()) * 1e9))
    patch(time, "sleep", lambda _: refuse("time.sleep, which stops the whole process; await asyncio.sleep"))
    patch(threading.Thread, "start", lambda *_: refuse("a thread"))
    patch(os, "urandom", lambda count: chance().bytes(count))
    patch(random, "_urandom", lambda count: chance().bytes(count))
    patch(uuid, "uuid4", lambda: uuid.UUID(bytes=chance().bytes(16), version=4))
    patch(uuid, "uuid1", lambda *_: uuid.UUID(bytes=chance().bytes(16), version=1))
    for name in _RANDOM:
        patch(random, name, lambda *args, _name=name, **kw: getattr(chance().random, _name)(*args, **kw))
    try:
        yield
    finally:
        for module, name, original in reversed(patched):
            setattr(module, name, original)
