"""A process of a scenario: a coroutine function that is started anew for every incarnation, and what it waits for.

It shares nothing with the others but the store and the effects. What it has observed so far decides what it does next, so
the hash of its observations stands for its whole inner state.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.loop import Handle
from raceproof.testing.explorer.virtual import Chance

if TYPE_CHECKING:
    from raceproof.testing.explorer.connection import Connection

State = tuple[int, int, int, int]
Knowing = tuple[int, int, int, int]
Body = Callable[["Connection"], Awaitable[object]]

VISIBLE = tuple(Fate)
"""What can happen to an operation that others can see."""
UNSEEN = (Fate.DONE, Fate.DIES_BEFORE, Fate.CANCELLED_BEFORE)
"""What can happen while a process sleeps."""
SURE = (Fate.DONE,)


class Operation:
    """Something that a process waits for: a statement, an effect, a timer, its own start."""

    __slots__ = ("apply", "errors", "fates", "future", "label", "number", "process", "trial", "uses_store")

    def __init__(
        self,
        process: "Process",
        label: Callable[[], str],
        apply: Callable[[], Any],
        future: "asyncio.Future[Any] | None",
        fates: tuple[Fate, ...] = VISIBLE,
        uses_store: bool = False,
        errors: Callable[[Fate], BaseException] | None = None,
    ) -> None:
        self.process = process
        self.label = label
        self.apply = apply
        self.future = future
        self.fates = fates
        self.uses_store = uses_store
        self.errors = errors
        self.trial: Callable[[], Any] | None = None
        """How to do it only to undo it, if it can be done without running code of its process."""
        self.number = 0
        """Which one it is of all that its process has asked for."""

    @property
    def gone(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.future is not None and self.future.done()


class Process:
    """One process, over all its incarnations in one run."""

    UNBORN = -1
    """What is observed by nobody."""

    __slots__ = (
        "asked",
        "body",
        "chance",
        "ending",
        "faulted",
        "identity",
        "incarnation",
        "index",
        "main",
        "name",
        "numbers",
        "observed",
        "pending",
        "restarts",
        "tasks",
        "timers",
        "told",
    )

    def __init__(self, index: int, name: str, body: Body, restarts: bool) -> None:
        self.index = index
        self.name = name
        self.body = body
        self.restarts = restarts
        self.incarnation = 0
        self.main: asyncio.Task[Any] | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        self.pending: list[Operation] = []
        self.timers: list[Handle] = []
        self.observed = 0
        self.told = 0
        self.asked = 0
        self.faulted = False
        self.ending = False
        self.numbers: Iterator[int] = count(1)
        self.chance = Chance("")
        self.identity = ""

    @property
    def title(self) -> str:
        """Its name, with a stroke for every restart."""
        return self.name + "'" * (self.incarnation - 1)

    def begin(self) -> None:
        """A new incarnation: nothing of the last one is left."""
        self.incarnation += 1
        self.observed = 0
        self.asked = 0
        self.faulted = self.ending = False
        self.numbers = count(1)
        self.chance = Chance(f"{self.name}/{self.incarnation}")
        self.identity = f"{self.name}.{self.incarnation}"

    def forget(self) -> None:
        """Nothing of it runs or waits any more."""
        self.pending, self.timers, self.tasks, self.main = [], [], [], None
        self.observed = self.UNBORN

    def observe(self, *what: object) -> None:
        """It knows this from now on. Answers as texts: -1 and -2 have the same hash, and 1, 1.0 and True are equal."""
        self.observed = hash((self.observed, what))

    def observing(self, *what: object, after: int | None = None) -> int:
        """What its observations would be with this, after those that it has or after these."""
        return hash((self.observed if after is None else after, what))

    def fire_timers(self, clock: float) -> list[Handle]:
        """Timers that are due, in order."""
        due = [timer for timer in self.timers if timer.when <= clock and not timer.cancelled()]
        if due:
            self.timers = [timer for timer in self.timers if timer.when > clock and not timer.cancelled()]
            due.sort(key=lambda timer: timer.when)
        return due

    def next_timer(self) -> float | None:
        waiting = [timer.when for timer in self.timers if not timer.cancelled()]
        return min(waiting) if waiting else None

    def state(self) -> State:
        return self.incarnation, self.observed, self.told, -1 if self.main is None else int(self.main.done())

    def dead_state(self) -> State:
        """The same, if it died now."""
        return self.incarnation, self.UNBORN, self.told, -1

    def knowing(self, observed: int) -> Knowing:
        """What decides how its code goes on, if these are its observations."""
        return self.index, self.incarnation, observed, self.told
