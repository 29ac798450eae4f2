"""The answers of a delivery: a turn to send, or why there is none."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar, Literal

from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.outcome import Conflict, Missing, ReachedAnswer, Unknown, UnreachedAnswer
from raceproof.shown import shown_key


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Turn(ReachedAnswer):
    """This caller sends. `in_doubt`: an earlier try may have arrived."""

    outcome: ClassVar[str] = "won"
    won: ClassVar[Literal[True]] = True

    key: Any
    move: Delivery
    parts: tuple[Any, ...] = field(repr=False)
    """The key as one value for each key column, the tenant first."""
    fence: Any
    by: str
    attempt: int | None
    state: DeliveryState
    in_doubt: bool
    deadline: float
    row: Any = None
    _newer: "Turn | None" = field(default=None, repr=False, init=False)

    def __init__(
        self,
        key: Any,
        move: Delivery,
        parts: tuple[Any, ...],
        fence: Any,
        by: str,
        attempt: int | None,
        state: DeliveryState,
        in_doubt: bool,
        deadline: float,
        row: Any = None,
    ) -> None:
        # by the slots: frozen dataclasses set by name, in twice the time
        _set_key(self, key)
        _set_move(self, move)
        _set_parts(self, parts)
        _set_fence(self, fence)
        _set_by(self, by)
        _set_attempt(self, attempt)
        _set_state(self, state)
        _set_in_doubt(self, in_doubt)
        _set_deadline(self, deadline)
        _set_row(self, row)
        _set_newer(self, None)

    @property
    def intent(self) -> str:
        """The idempotency key for the receiver: the same for every try, whoever makes it."""
        return self.move.intent_of(self.parts)

    @property
    def latest(self) -> "Turn":
        """The same turn as it is now: `sending` starts it anew, with another fence."""
        turn = self
        while turn._newer is not None:
            turn = turn._newer
        return turn

    def renewed(self, newer: "Turn") -> None:
        """Whoever still has this one means the newer one from now on."""
        object.__setattr__(self, "_newer", newer)

    def __str__(self) -> str:
        doubt = ", an earlier try may have arrived" if self.in_doubt else ""
        return f"{self.move} of {shown_key(self.key)} is {self.by}'s to send{doubt}"


(
    _set_key,
    _set_move,
    _set_parts,
    _set_fence,
    _set_by,
    _set_attempt,
    _set_state,
    _set_in_doubt,
    _set_deadline,
    _set_row,
    _set_newer,
) = (getattr(Turn, one.name).__set__ for one in fields(Turn))


@dataclass(frozen=True, slots=True)
class NoTurn(UnreachedAnswer):
    """Somebody else sends or has sent, or the end of the last try is unknown and held for a person."""

    key: Any
    move: Delivery
    state: DeliveryState
    by: str | None = None
    since: datetime | None = None

    @property
    def outcome(self) -> str:
        return str(self.state)

    def __str__(self) -> str:
        who = f" (by {self.by})" if self.by else ""
        match self.state:
            case DeliveryState.DELIVERED:
                what = "was delivered already"
            case DeliveryState.UNCERTAIN:
                what = "has an unknown end; look whether it arrived, then resolve it"
            case DeliveryState.READY | DeliveryState.FAILED:
                what = "can be sent: nothing about it is unknown"
                who = ""
            case _:
                what = "is being sent by somebody else"
        return f"{self.move} of {shown_key(self.key)} {what}{who}"


@dataclass(frozen=True, slots=True)
class Marked(ReachedAnswer):
    """The turn was ended, and the row says so."""

    won: ClassVar[Literal[True]] = True

    key: Any
    move: Delivery
    state: DeliveryState

    @property
    def outcome(self) -> str:
        return str(self.state)

    def __str__(self) -> str:
        return f"{self.move} of {shown_key(self.key)} is {self.state}"


@dataclass(frozen=True, slots=True)
class TurnLost(UnreachedAnswer):
    """The turn is no longer this caller's: it was taken over, or ended; `state` is what was found."""

    outcome: ClassVar[str] = "lost"

    key: Any
    move: Delivery
    state: DeliveryState
    by: str | None = None

    def __str__(self) -> str:
        who = f" (by {self.by})" if self.by else ""
        return f"{self.move} of {shown_key(self.key)} is not this caller's any more: it is {self.state}{who}"


TurnAnswer = Turn | NoTurn | Missing[Any] | Unknown[Any] | Conflict[Any]
MarkAnswer = Marked | TurnLost | Missing[Any] | Unknown[Any] | Conflict[Any]


class NotSent(Exception):
    """Raise it in the body of `deliver_once` when the send has failed for sure: the next try may follow at once."""
