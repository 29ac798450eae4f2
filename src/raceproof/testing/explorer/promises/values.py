"""Rows, values and answers as SQLite, PostgreSQL and Redis give them, for the invariants."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from raceproof.declare.lifecycle import Lifecycle
from raceproof.declare.spec import Spec
from raceproof.kernel.events import Event
from raceproof.kernel.moment import moment as moment_of
from raceproof.kernel.quoting import split_qualified
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.virtual import EPOCH
from raceproof.testing.explorer.world import Moment, World

Declared = type[Lifecycle[Any]] | Spec[Any]
Row = Mapping[str, Any]
Rows = dict[tuple[str, ...], Row]
Step = Callable[[Tables, Tables, Moment], object]
T = TypeVar("T")


# values, as SQLite, PostgreSQL and Redis give them


def text(value: Any) -> str | None:
    """A value as text; nothing is None, also where a store has an empty text for it."""
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return None if value is None or value == "" else str(value)


def number(value: Any) -> int | None:
    """A whole number, which may be written as a text."""
    return None if text(value) is None else int(value)


def seconds(value: Any) -> float | None:
    """A moment in seconds since the run began, whether it is a datetime, a text or a number."""
    return None if text(value) is None else round(moment_of(value).timestamp() - EPOCH, 3)


def order(fence: Any) -> Any:
    """A fence as something that grows: a number, or a moment with all its digits."""
    if isinstance(fence, int | datetime):
        return fence
    found = str(text(fence) or "")
    return int(found) if found.isascii() and found.isdecimal() else found


def rows_of(tables: Tables, table: str, keys: Sequence[str]) -> Rows:
    """The rows of a table by their key."""
    name = split_qualified(table)[-1] if "." in table else table
    return {
        tuple([str(row[column]) for column in keys]): row
        for row in tables.get(name, ())
        if all(column in row for column in keys)
    }


def told(moment: Moment, declared: object, *operations: str) -> Iterator[tuple[str, Event]]:
    """Final answers about one declared thing: a move, a claim, a delivery, a lease, or any of a lifecycle."""
    for title, event in moment.told:
        move: Any = event.answer.declared
        if event.settled and event.operation in operations and declared in (move, move.lifecycle):
            yield title, event


def at_each_step(world: World, name: str, check: Step) -> None:
    """Must hold for the rows before and after every step; the check may also look at the moment after it."""
    latest: list[Moment] = []

    def remember(moment: Moment) -> bool:
        latest[:] = [moment]
        return True

    world.always(name, remember)  # these are asked before changes are, in the same step
    world.change(name, lambda before, after: check(before, after, latest[0]))


def outcomes(moment: Moment, declared: object, outcome: str, *operations: str) -> bool:
    """Whether somebody was told this; for `world.sometimes`."""
    asked = operations or _OPERATIONS
    return any(event.outcome == outcome for _, event in told(moment, declared, *asked))


_OPERATIONS = ("move", "claim", "renew", "release", "fail", "deliver", "mark", "resolve", "start", "lease", "receive")


def named(key: tuple[str, ...]) -> str:
    return repr(key[0]) if len(key) == 1 else repr(key)
