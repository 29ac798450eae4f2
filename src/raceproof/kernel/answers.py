"""What all answers share, and those of moves and claims. Losing a race is a value: the caller learns what was found.

`won` says that this very call did it, `reached` that what was asked for is so, whoever did it. `must()` returns the answer
if that is reached and raises `NotReached` otherwise. `outcome` is the one word for it, in events, metric labels, history and
logs. `if answer:` raises, for it would hide a loss.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, NoReturn, Protocol, Self, TypeVar

from raceproof.declare.statuses import text_of_status
from raceproof.kernel.errors import RaceproofError
from raceproof.kernel.shown import shown_key
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Program

S = TypeVar("S", bound=str | Enum)
R = TypeVar("R")
T = TypeVar("T")

Key = Any
"""What the caller uses to name a row: text, int, UUID, or a tuple of these for a key of several columns."""


class Asked(Protocol):
    """What a call asks for: a move, a claim, a delivery; it has a name and the rows that it is about."""

    @property
    def name(self) -> str: ...
    @property
    def lifecycle(self) -> Any: ...


class NotReached(RaceproofError):
    """`must()` was called on an answer that did not reach the target; `.answer` has the whole of it."""

    def __init__(self, answer: Any) -> None:
        super().__init__(str(answer))
        self.answer = answer


def neither_true_nor_false(answer: object) -> bool:
    """`if answer:` would hide a loss."""
    raise TypeError(f"an answer is neither true nor false; ask .won or .reached, or match on it ({answer})")


class _Answer:
    """What all answers share."""

    __slots__ = ()

    __bool__ = neither_true_nor_false


class ReachedAnswer(_Answer):
    """What was asked for is so."""

    __slots__ = ()
    reached: ClassVar[Literal[True]] = True

    def must(self) -> Self:
        return self


class UnreachedAnswer(_Answer):
    """What was asked for is not so, or unknown."""

    __slots__ = ()
    won: ClassVar[Literal[False]] = False
    reached: ClassVar[Literal[False]] = False

    def must(self) -> NoReturn:
        raise NotReached(self)


@dataclass(frozen=True, slots=True)
class Missing(UnreachedAnswer, Generic[S]):
    """There is no such row (for this tenant)."""

    outcome: ClassVar[str] = "missing"

    key: Key
    declared: Asked

    def __str__(self) -> str:
        return f"{self.declared} found no row {shown_key(self.key)} in {self.declared.lifecycle.table}"


@dataclass(frozen=True, slots=True)
class Lost(UnreachedAnswer, Generic[S]):
    """The row does not carry the caller's fence: another process took it over, or the claim has ended.

    `fence` is the row's own, None where the end of a claim clears it. `status` and `by` say what became of the row: a holder
    that asks again after its own finish finds its own name there.
    """

    outcome: ClassVar[str] = "lost"

    key: Key
    declared: Asked
    status: S
    fence: Any
    revision: int | None = None
    by: str | None = None

    def __str__(self) -> str:
        if self.fence is None:
            found = f"{text_of_status(self.status)}{shown_by(self.by)}"
            return f"{self.declared} lost {shown_key(self.key)}: its claim has ended, and the row is at {found}"
        return f"{self.declared} lost {shown_key(self.key)}: the row carries fence {self.fence} now{shown_by(self.by)}"


@dataclass(frozen=True, slots=True)
class Unknown(UnreachedAnswer, Generic[S]):
    """The store was asked and its acknowledgement was lost: the row may have moved or not.

    The same call again is safe; with `call=answer.call` and a history it returns what the first one did.
    """

    outcome: ClassVar[str] = "unknown"

    key: Key
    declared: Asked
    call: str | None
    cause: BaseException

    def __str__(self) -> str:
        again = f"; ask again with call={self.call!r}" if self.call else "; ask again, the move is guarded"
        return f"{self.declared} of {shown_key(self.key)} has an unknown end: {_first_line(self.cause)}{again}"


@dataclass(frozen=True, slots=True)
class Conflict(UnreachedAnswer, Generic[S]):
    """The store gave up this transaction for another one: nothing was written, run the transaction again."""

    outcome: ClassVar[str] = "conflict"

    key: Key
    declared: Asked
    cause: BaseException

    def __str__(self) -> str:
        what = f"{self.declared} of {shown_key(self.key)}"
        return f"{what} met a conflict, run the transaction again: {_first_line(self.cause)}"


def shown_by(by: str | None) -> str:
    return f" (by {by})" if by else ""


def _first_line(cause: BaseException) -> str:
    return (str(cause) or type(cause).__name__).splitlines()[0]


def outages_as_answers(key: Any, declared: Any, program: Program[T]) -> Program[T | Unknown[Any] | Conflict[Any]]:
    """Run a program whose statement may commit; a lost acknowledgement or a serialization failure is an answer."""
    try:
        return (yield from program)
    except AcknowledgementLost as error:
        return Unknown(key, declared, None, error.__cause__ or error)
    except Conflicted as error:
        return Conflict(key, declared, error.__cause__ or error)
