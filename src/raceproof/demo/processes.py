"""The processes of a race: started together, ended together, and never left behind, whatever ends the demo."""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import Array, c_double, c_ulong
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import RawArray, RawValue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from raceproof.demo.actors import Desk, cast
from raceproof.demo.plan import Fate
from raceproof.demo.sides import SIDES, open_side

OUTCOMES = ("moved", "already", "refused")
_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# forked processes start at once; where there is no fork, the usual way
_CONTEXT: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else None)


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
    parent: int


class Processes:
    """All actors of both sides."""

    def __init__(self, database: Path, fates: Sequence[Fate], handlers: int) -> None:
        self._actors = tuple(cast(handlers))
        self._stage = Stage(
            database,
            fates,
            handlers,
            begin=_CONTEXT.Event(),
            end=_CONTEXT.Event(),
            begun=RawValue(c_double, 0.0),
            counts=RawArray(c_ulong, len(SIDES) * len(self._actors) * len(OUTCOMES)),
            parent=os.getpid(),
        )
        self._running: list[BaseProcess] = []

    def start(self) -> None:
        """Start everybody, then give the signal to all at once."""
        with _signals_wait():
            for number, side in enumerate(SIDES):
                published, answers = _CONTEXT.Queue(), _CONTEXT.Queue()
                for slot, actor in enumerate(self._actors, number * len(self._actors)):
                    process = _CONTEXT.Process(
                        target=_act,
                        args=(self._stage, side, actor, slot, published, answers),
                        name=f"{side} {actor}",
                        daemon=True,
                    )
                    process.start()
                    self._running.append(process)
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

    def failure(self) -> str | None:
        """What an actor died of, if one did."""
        for process in self._running:
            if process.exitcode:
                note = _note(self._stage.database, process.name)
                return note.read_text() if note.exists() else f"{process.name} ended with {process.exitcode}"
        return None

    def finish(self) -> None:
        """Let everybody end what they are at."""
        self._stage.end.set()
        patience = time.monotonic() + 5
        for process in self._running:
            process.join(max(0.0, patience - time.monotonic()))
        self.stop()

    def stop(self) -> None:
        """End whoever still runs; nothing is half-written, for every write is one transaction."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.join()


def _act(
    stage: Stage, side: str, actor: str, slot: int, published: "Queue[Any]", answers: "Queue[Any]"
) -> None:
    """The whole life of one actor's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of it and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _mask("SIG_UNBLOCK")
    _die_with(stage.parent)
    published.cancel_join_thread()
    answers.cancel_join_thread()

    def count(outcome: str) -> None:
        stage.counts[slot * len(OUTCOMES) + OUTCOMES.index(outcome)] += 1

    try:
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
    except Exception:
        _note(stage.database, f"{side} {actor}").write_text(f"{side} {actor}:\n{traceback.format_exc()}")
        sys.exit(1)


def _note(database: Path, name: str) -> Path:
    return database.with_name(f"{name.replace(' ', '-')}.error")


def _die_with(parent: int) -> None:
    """Ask the system to end this process with its parent, even if that one is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold back Ctrl-C while processes start, so that none of them is hit before it has learnt to ignore it."""
    _mask("SIG_BLOCK")
    try:
        yield
    finally:
        _mask("SIG_UNBLOCK")


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(getattr(signal, how), _SIGNALS)
