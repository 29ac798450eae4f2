"""What all answers share, and those of moves and claims. Losing a race is a value: the caller learns what was found.

`won` says that this very call did it, `reached` that what was asked for is so, whoever did it. `must()` returns the answer
if that is reached and raises `NotReached` otherwise. `outcome` is the one word for it, in events, metric labels, history and
logs. `if answer:` raises, for it would hide a loss.
"""

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, NoReturn, Protocol, Self, TypeVar

from raceproof.errors import RaceproofError
from raceproof.shown import shown_key
from raceproof.spec import Claimable, Move
from raceproof.statuses import text_of_status as _text

S = TypeVar("S", bound=str | Enum)
R = TypeVar("R")

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
    """What was asked for is not so, or nobody knows."""

    __slots__ = ()
    won: ClassVar[Literal[False]] = False
    reached: ClassVar[Literal[False]] = False

    def must(self) -> NoReturn:
        raise NotReached(self)


@dataclass(frozen=True, slots=True, init=False)
class Moved(ReachedAnswer, Generic[S, R]):
    """This call moved the row. `replayed`: an earlier call with the same `call` id had done it already.

    `fenced_off` is who held the row, if the move ended the claim of another process, which can write nothing more; a form
    without a holder shows what it keeps instead.
    """

    outcome: ClassVar[str] = "moved"
    won: ClassVar[Literal[True]] = True

    key: Key
    move: Move[S]
    before: S
    revision: int | None
    row: R
    replayed: bool = False
    fenced_off: str | None = None

    def __init__(
        self,
        key: Key,
        move: Move[S],
        before: S,
        revision: int | None,
        row: R,
        replayed: bool = False,
        fenced_off: str | None = None,
    ) -> None:
        # by the slots: the usual answer is made once for each row, and frozen dataclasses set by name, in twice the time
        _set_key(self, key)
        _set_move(self, move)
        _set_before(self, before)
        _set_revision(self, revision)
        _set_row(self, row)
        _set_replayed(self, replayed)
        _set_fenced_off(self, fenced_off)

    @property
    def status(self) -> S:
        return self.move.reaches

    def __str__(self) -> str:
        fenced_off = f", and fenced off {self.fenced_off}" if self.fenced_off else ""
        return f"{self.move} moved {shown_key(self.key)} from {_text(self.before)} to {self.move.target}{fenced_off}"


_set_key, _set_move, _set_before, _set_revision, _set_row, _set_replayed, _set_fenced_off = (
    getattr(Moved, one.name).__set__ for one in fields(Moved)
)


@dataclass(frozen=True, slots=True)
class Already(ReachedAnswer, Generic[S]):
    """The row was at the target before this call, and everything the call asked of it holds.

    A holder gets this only if the row still carries its fence, so it moved the row itself; if another process did, it gets
    `Lost`. For a caller without a fence, `by` names who moved the row, where a history tells.
    """

    outcome: ClassVar[str] = "already"
    won: ClassVar[Literal[False]] = False

    key: Key
    move: Move[S]
    revision: int | None
    by: str | None = None

    @property
    def status(self) -> S:
        return self.move.reaches

    def __str__(self) -> str:
        return f"{self.move} found {shown_key(self.key)} at {self.move.target} already{_who(self.by)}"


@dataclass(frozen=True, slots=True)
class Refused(UnreachedAnswer, Generic[S]):
    """The move is not allowed from `status`, or the guards in `unmet` do not hold. The row was not touched.

    Guards and the revision of the call are checked first, also for a row that is at the target already.
    """

    outcome: ClassVar[str] = "refused"

    key: Key
    move: Move[S]
    status: S
    revision: int | None
    unmet: tuple[str, ...] = ()
    by: str | None = None

    @property
    def allowed(self) -> tuple[str, ...]:
        """The moves that lead out of the status found."""
        return self.move.lifecycle.moves_from.get(_text(self.status), ())

    def __str__(self) -> str:
        if self.unmet:
            unmet = " and not ".join(self.unmet)
            return f"{self.move} was refused for {shown_key(self.key)} at {_text(self.status)}: not {unmet}"
        allowed, found = ", ".join(self.allowed) or "nothing", f"{_text(self.status)}{_who(self.by)}"
        return (
            f"{self.move} was refused for {shown_key(self.key)}: it is at {found}; allowed there: {allowed}"
        )


@dataclass(frozen=True, slots=True)
class Missing(UnreachedAnswer, Generic[S]):
    """There is no such row (for this tenant)."""

    outcome: ClassVar[str] = "missing"

    key: Key
    move: Asked

    def __str__(self) -> str:
        return f"{self.move} found no row {shown_key(self.key)} in {self.move.lifecycle.table}"


@dataclass(frozen=True, slots=True)
class Lost(UnreachedAnswer, Generic[S]):
    """The row does not carry the caller's fence: another process took it over, or the claim has ended.

    `fence` is the row's own, None where the end of a claim clears it. `status` and `by` say what became of the row: a holder
    that asks again after its own finish finds its own name there.
    """

    outcome: ClassVar[str] = "lost"

    key: Key
    move: Asked
    status: S
    fence: Any
    revision: int | None = None
    by: str | None = None

    def __str__(self) -> str:
        if self.fence is None:
            found = f"{_text(self.status)}{_who(self.by)}"
            return f"{self.move} lost {shown_key(self.key)}: its claim has ended, and the row is at {found}"
        return (
            f"{self.move} lost {shown_key(self.key)}: the row carries fence {self.fence} now{_who(self.by)}"
        )


@dataclass(frozen=True, slots=True)
class Unknown(UnreachedAnswer, Generic[S]):
    """The store was asked and its acknowledgement was lost: the row may have moved or not.

    The same call again is safe; with `call=answer.call` and a history it returns what the first one did.
    """

    outcome: ClassVar[str] = "unknown"

    key: Key
    move: Asked
    call: str | None
    cause: BaseException

    def __str__(self) -> str:
        again = f"; ask again with call={self.call!r}" if self.call else "; ask again, the move is guarded"
        return f"{self.move} of {shown_key(self.key)} has an unknown end: {_first_line(self.cause)}{again}"


@dataclass(frozen=True, slots=True)
class Conflict(UnreachedAnswer, Generic[S]):
    """The store gave up this transaction for another one: nothing was written, run the transaction again."""

    outcome: ClassVar[str] = "conflict"

    key: Key
    move: Asked
    cause: BaseException

    def __str__(self) -> str:
        return f"{self.move} of {shown_key(self.key)} met a conflict, run the transaction again: {_first_line(self.cause)}"


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Claim(ReachedAnswer, Generic[S, R]):
    """This caller holds the row. Give it to `move` instead of the key: the fence goes into the write.

    `deadline` is the caller's own monotonic clock, measured from before the request: when it is over, so may be the lease.
    """

    outcome: ClassVar[str] = "claimed"
    won: ClassVar[Literal[True]] = True

    key: Key
    move: Claimable[S]
    fence: Any
    by: str
    attempt: int
    before: S
    deadline: float
    row: R
    tenant: Any = None

    def __bool__(self) -> Literal[True]:
        """A claim is something to hold, not the answer to a race that can be lost: `claim or key` is fine."""
        return True

    def __init__(
        self,
        key: Key,
        move: Claimable[S],
        fence: Any,
        by: str,
        attempt: int,
        before: S,
        deadline: float,
        row: R,
        tenant: Any = None,
    ) -> None:
        # by the slots, as in Moved
        _claim_key(self, key)
        _claim_move(self, move)
        _claim_fence(self, fence)
        _claim_by(self, by)
        _claim_attempt(self, attempt)
        _claim_before(self, before)
        _claim_deadline(self, deadline)
        _claim_row(self, row)
        _claim_tenant(self, tenant)

    @property
    def taken_over(self) -> bool:
        """Whether the row was at the status of a claimed one: an earlier holder did not finish it."""
        return self.move.move is not None and _text(self.before) in self.move.held

    def __str__(self) -> str:
        how = "took over" if self.taken_over else "claimed"
        return f"{self.move} {how} {shown_key(self.key)} for {self.by} with fence {self.fence}, attempt {self.attempt}"


(
    _claim_key,
    _claim_move,
    _claim_fence,
    _claim_by,
    _claim_attempt,
    _claim_before,
    _claim_deadline,
    _claim_row,
    _claim_tenant,
) = (getattr(Claim, one.name).__set__ for one in fields(Claim))


@dataclass(frozen=True, slots=True)
class Taken(UnreachedAnswer, Generic[S]):
    """The row cannot be claimed now: somebody holds it, or it rests, or its status or a guard does not allow it."""

    outcome: ClassVar[str] = "taken"

    key: Key
    move: Claimable[S]
    status: S
    why: str
    by: str | None = None

    def __str__(self) -> str:
        return f"{self.move} cannot claim {shown_key(self.key)} at {_text(self.status)}: {self.why}{_who(self.by)}"


@dataclass(frozen=True, slots=True)
class Released(ReachedAnswer, Generic[S]):
    """The holder gave the row back; `status` is where it is now. `delay`: so many seconds it rests."""

    outcome: ClassVar[str] = "released"
    won: ClassVar[Literal[True]] = True

    key: Key
    move: Claimable[S]
    status: S
    delay: float = 0.0

    def __str__(self) -> str:
        return f"{self.move} gave back {shown_key(self.key)}" + (
            f", to rest {self.delay:g} s" if self.delay else ""
        )


@dataclass(frozen=True, slots=True)
class SetAside(ReachedAnswer, Generic[S]):
    """The row has used up its attempts and was moved out of the way, or will not be claimed again where it is."""

    outcome: ClassVar[str] = "set aside"
    won: ClassVar[Literal[True]] = True

    key: Key
    move: Claimable[S]
    status: S
    attempt: int | None = None

    def __str__(self) -> str:
        return f"{self.move} set {shown_key(self.key)} aside at {_text(self.status)}, after {self.attempt} attempts"


Renewal = Claim[S, R] | Lost[S] | Missing[S] | Unknown[S] | Conflict[S]
GivenBack = Released[S] | SetAside[S] | Lost[S] | Missing[S] | Unknown[S] | Conflict[S]

Answer = Moved[S, R] | Already[S] | Refused[S] | Missing[S] | Lost[S] | Unknown[S] | Conflict[S]


def _who(by: str | None) -> str:
    return f" (by {by})" if by else ""


def _first_line(cause: BaseException) -> str:
    return (str(cause) or type(cause).__name__).splitlines()[0]
