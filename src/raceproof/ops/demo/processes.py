"""The processes of the race over commands: all actors of both sides, and how often each got which answer."""

import time
from collections import Counter
from collections.abc import Sequence
from ctypes import Array, c_double, c_ulong
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import RawArray, RawValue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from raceproof.ops.demo.actors import Desk, cast
from raceproof.ops.demo.children import CONTEXT, Children, signals_wait
from raceproof.ops.demo.plan import Fate
from raceproof.ops.demo.sides import SIDES, open_side

OUTCOMES = ("moved", "already", "refused")


@dataclass(frozen=True)
class Stage:
    """What all processes of a race share."""

    database: Path
    fates: Sequence[Fate]
    handlers: int
    begin: Event
    end: Event
    begun: c_double
    counts: Array[c_ulong]
    """How often each actor got each answer; an actor writes only its own."""


class Processes:
    """All actors of both sides."""

    def __init__(self, database: Path, fates: Sequence[Fate], handlers: int) -> None:
        self._actors = tuple(cast(handlers))
        self._stage = Stage(
            database,
            fates,
            handlers,
            begin=CONTEXT.Event(),
            end=CONTEXT.Event(),
            begun=RawValue(c_double, 0.0),
            counts=RawArray(c_ulong, len(SIDES) * len(self._actors) * len(OUTCOMES)),
        )
        self._children = Children(database.parent)
        self.check = self._children.check
        self.stop = self._children.stop

    def start(self) -> None:
        """Start everybody, then give the signal to all at once."""
        with signals_wait():
            for number, side in enumerate(SIDES):
                published, answers = CONTEXT.Queue(), CONTEXT.Queue()
                for slot, actor in enumerate(self._actors, number * len(self._actors)):
                    self._children.begin(f"{side} {actor}", _act, self._stage, side, actor, slot, published, answers)
        self._stage.begun.value = time.monotonic()
        self._stage.begin.set()

    @property
    def elapsed(self) -> float:
        """Seconds since the signal."""
        return time.monotonic() - self._stage.begun.value

    def counts(self, side: str) -> Counter[str]:
        """How often the actors of one side got each answer."""
        size = len(self._actors) * len(OUTCOMES)
        first = SIDES.index(side) * size
        found: Counter[str] = Counter()
        for place, value in enumerate(self._stage.counts[first : first + size]):
            found[OUTCOMES[place % len(OUTCOMES)]] += value
        return found

    def finish(self) -> None:
        """Let everybody end what they are at."""
        self._stage.end.set()
        self._children.finish()


def _act(stage: Stage, side: str, actor: str, slot: int, published: "Queue[Any]", answers: "Queue[Any]") -> None:
    """What one actor's process does."""
    published.cancel_join_thread()
    answers.cancel_join_thread()

    def count(outcome: str) -> None:
        stage.counts[slot * len(OUTCOMES) + OUTCOMES.index(outcome)] += 1

    desk = Desk(
        side=open_side(side, stage.database, actor),
        fates={fate.cmd_id: fate for fate in stage.fates},
        published=published,
        answers=answers,
        now=lambda: time.monotonic() - stage.begun.value,
        ended=stage.end.is_set,
        count=count,
    )
    stage.begin.wait()
    cast(stage.handlers)[actor](desk)
