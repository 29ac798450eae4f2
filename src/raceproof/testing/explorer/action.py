"""What can happen next in an explored run, what it costs, and how a schedule is written for people.

A schedule is a list of words: a process's name is its next operation, `wait` lets time pass to the next expiry. A fault is
written behind the name, as in `poller:dies-after`; `worker#2` is the second of several operations that wait at once, and
`worker*3` the next three.
"""

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple

from raceproof.kernel.errors import CallError


class Fate(Enum):
    """How an operation goes."""

    DONE = ""
    DIES_BEFORE = "dies-before"
    DIES_AFTER = "dies-after"
    FAILS = "fails"
    UNANSWERED = "unanswered"
    CANCELLED_BEFORE = "cancelled-before"
    CANCELLED_AFTER = "cancelled-after"

    @property
    def said(self) -> str:
        """For people."""
        return _SAID[self]


_SAID = {
    Fate.DONE: "",
    Fate.DIES_BEFORE: "dies just before",
    Fate.DIES_AFTER: "dies just after",
    Fate.FAILS: "fails, and nothing was done",
    Fate.UNANSWERED: "is done, but the answer is lost",
    Fate.CANCELLED_BEFORE: "is cancelled before",
    Fate.CANCELLED_AFTER: "is cancelled after",
}


class Faults(NamedTuple):
    """How many faults of each kind; as a limit, and as a count."""

    crashes: int = 0
    lost: int = 0
    errors: int = 0
    cancels: int = 0

    def plus(self, fate: Fate) -> "Faults":
        return self if fate is Fate.DONE else _plus(self, fate)

    def within(self, limit: "Faults") -> bool:
        return (
            self.crashes <= limit.crashes
            and self.lost <= limit.lost
            and self.errors <= limit.errors
            and self.cancels <= limit.cancels
        )


_COUNTED = {
    Fate.DONE: Faults(),
    Fate.DIES_BEFORE: Faults(crashes=1),
    Fate.DIES_AFTER: Faults(crashes=1),
    Fate.FAILS: Faults(errors=1),
    Fate.UNANSWERED: Faults(lost=1),
    Fate.CANCELLED_BEFORE: Faults(cancels=1),
    Fate.CANCELLED_AFTER: Faults(cancels=1),
}


@cache
def _plus(faults: Faults, fate: Fate) -> Faults:
    return Faults(*(count + one for count, one in zip(faults, _COUNTED[fate], strict=True)))


@cache
def allowed(used: Faults, limit: Faults, fates: tuple[Fate, ...]) -> tuple[Fate, ...]:
    """Which faults may still happen."""
    return tuple(fate for fate in fates if fate is not Fate.DONE and used.plus(fate).within(limit))


class Action(NamedTuple):
    """One step: which process, which of the operations that it has waiting, and how that goes."""

    process: int
    place: int = 0
    fate: Fate = Fate.DONE


WAIT = Action(-1)
Schedule = Sequence[Action]

NAME = re.compile(r"[^\s:#*]+")
"""What a process can be called."""
_MOST = 10_000
_WORD = re.compile(r"(?P<name>[^\s:#*]+)(?:#(?P<place>\d+))?(?::(?P<fate>[a-z-]+))?(?:\*(?P<times>\d+))?")


def written(schedule: Schedule, names: Sequence[str]) -> str:
    """A schedule as text."""
    words: list[tuple[str, int]] = []
    for action in schedule:
        word = "wait" if action == WAIT else names[action.process]
        word += f"#{action.place + 1}" if action.place else ""
        word += f":{action.fate.value}" if action.fate is not Fate.DONE else ""
        if words and words[-1][0] == word:
            words[-1] = (word, words[-1][1] + 1)
        else:
            words.append((word, 1))
    return " ".join(word if times == 1 else f"{word}*{times}" for word, times in words)


def parsed(text: str, names: Sequence[str]) -> list[Action]:
    """A text as a schedule."""
    return list(_actions(text.split(), names))


def _actions(words: Iterable[str], names: Sequence[str]) -> Iterable[Action]:
    for word in words:
        match = _WORD.fullmatch(word)
        name = match["name"] if match else ""
        if match is None or (name != "wait" and name not in names):
            raise CallError(f"{word!r} in the schedule is no step; the processes are {', '.join(names)}")
        if name == "wait" and (match["place"] or match["fate"]):
            raise CallError(f"{word!r} in the schedule: nothing can go wrong with waiting")
        place, times = int(match["place"] or 1), int(match["times"] or 1)
        if not 1 <= place <= _MOST or not 1 <= times <= _MOST:
            raise CallError(f"{word!r} in the schedule: counting begins at 1, and ends at {_MOST}")
        yield from [
            WAIT if name == "wait" else Action(names.index(name), place - 1, _fate(word, match["fate"]))
        ] * times


def _fate(word: str, said: str | None) -> Fate:
    try:
        return Fate(said or "")
    except ValueError:
        known = ", ".join(fate.value for fate in Fate if fate is not Fate.DONE)
        raise CallError(f"{word!r} in the schedule has no known fault; there are {known}") from None
