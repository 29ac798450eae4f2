"""The answers of a move. Losing a race is a value: the caller learns what was found."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import ClassVar, Generic, Literal

from raceproof.declare.spec import Move
from raceproof.declare.statuses import text_of_status
from raceproof.kernel.answers import (
    Conflict,
    Key,
    Lost,
    Missing,
    R,
    ReachedAnswer,
    S,
    Unknown,
    UnreachedAnswer,
    shown_by,
)
from raceproof.kernel.shown import shown_key


@dataclass(frozen=True, slots=True, init=False)
class Moved(ReachedAnswer, Generic[S, R]):
    """This call moved the row. `replayed`: an earlier call with the same `call` id had done it already.

    `fenced_off` is who held the row, if the move ended the claim of another process, which can write nothing more; a form
    without a holder shows what it keeps instead.
    """

    outcome: ClassVar[str] = "moved"
    won: ClassVar[Literal[True]] = True

    key: Key
    declared: Move[S]
    before: S
    revision: int | None
    row: R
    replayed: bool = False
    fenced_off: str | None = None

    def __init__(
        self,
        key: Key,
        declared: Move[S],
        before: S,
        revision: int | None,
        row: R,
        replayed: bool = False,
        fenced_off: str | None = None,
    ) -> None:
        # by the slots: the usual answer is made once for each row, and frozen dataclasses set by name, in twice the time
        _set_key(self, key)
        _set_declared(self, declared)
        _set_before(self, before)
        _set_revision(self, revision)
        _set_row(self, row)
        _set_replayed(self, replayed)
        _set_fenced_off(self, fenced_off)

    @property
    def status(self) -> S:
        return self.declared.reaches

    def __str__(self) -> str:
        fenced_off = f", and fenced off {self.fenced_off}" if self.fenced_off else ""
        path = f"from {text_of_status(self.before)} to {self.declared.target}"
        return f"{self.declared} moved {shown_key(self.key)} {path}{fenced_off}"


_set_key, _set_declared, _set_before, _set_revision, _set_row, _set_replayed, _set_fenced_off = (
    getattr(Moved, one.name).__set__ for one in fields(Moved)
)


@dataclass(frozen=True, slots=True)
class Already(ReachedAnswer, Generic[S]):
    """The row was at the target before this call, and everything the call asked of it holds.

    A holder gets this only if the row still carries its fence, so it moved the row itself; if another process did, it gets
    `Lost`. For a caller without a fence, `by` names who moved the row, if a history says so.
    """

    outcome: ClassVar[str] = "already"
    won: ClassVar[Literal[False]] = False

    key: Key
    declared: Move[S]
    revision: int | None
    by: str | None = None

    @property
    def status(self) -> S:
        return self.declared.reaches

    def __str__(self) -> str:
        return f"{self.declared} found {shown_key(self.key)} at {self.declared.target} already{shown_by(self.by)}"


@dataclass(frozen=True, slots=True)
class Refused(UnreachedAnswer, Generic[S]):
    """The move is not allowed from `status`, or the guards in `unmet` do not hold. The row was not touched.

    Guards and the revision of the call are checked first, also for a row that is at the target already.
    """

    outcome: ClassVar[str] = "refused"

    key: Key
    declared: Move[S]
    status: S
    revision: int | None
    unmet: tuple[str, ...] = ()
    by: str | None = None

    @property
    def allowed(self) -> tuple[str, ...]:
        """The moves that lead out of the status found."""
        return self.declared.lifecycle.moves_from.get(text_of_status(self.status), ())

    def __str__(self) -> str:
        if self.unmet:
            unmet = " and not ".join(self.unmet)
            return (
                f"{self.declared} was refused for {shown_key(self.key)} at {text_of_status(self.status)}: not {unmet}"
            )
        allowed, found = (", ".join(self.allowed) or "nothing", f"{text_of_status(self.status)}{shown_by(self.by)}")
        return f"{self.declared} was refused for {shown_key(self.key)}: it is at {found}; allowed there: {allowed}"


Answer = Moved[S, R] | Already[S] | Refused[S] | Missing[S] | Lost[S] | Unknown[S] | Conflict[S]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One decision that was kept: a move, or, where losers are recorded, a move that was refused."""

    move: str
    outcome: str
    before: str | None
    """None for a row that an override put in at this status."""
    after: str
    revision: int | None
    actor: str | None
    reason: str | None
    call: str | None
    at: datetime
