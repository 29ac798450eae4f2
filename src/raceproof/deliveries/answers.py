"""The answers of a delivery: a permit to send, or why there is none."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar, Literal

from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.kernel.answers import Conflict, Missing, ReachedAnswer, Unknown, UnreachedAnswer
from raceproof.kernel.shown import shown_key


@dataclass(frozen=True, slots=True, eq=False, init=False)
class SendPermit(ReachedAnswer):
    """This caller sends. `in_doubt`: an earlier try may have arrived."""

    outcome: ClassVar[str] = "won"
    won: ClassVar[Literal[True]] = True

    key: Any
    declared: Delivery
    parts: tuple[Any, ...] = field(repr=False)
    """The key as one value for each key column, the tenant first."""
    fence: Any
    by: str
    attempt: int | None
    state: DeliveryState
    in_doubt: bool
    deadline: float
    row: Any = None
    _newer: "SendPermit | None" = field(default=None, repr=False, init=False)

    def __init__(
        self,
        key: Any,
        declared: Delivery,
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
        _set_declared(self, declared)
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
    def idempotency_key(self) -> str:
        """The idempotency key for the receiver: the same for every try, whoever makes it."""
        return self.declared.idempotency_key_of(self.parts)

    @property
    def latest(self) -> "SendPermit":
        """The same permit as it is now: `sending` starts it again, with another fence."""
        permit = self
        while permit._newer is not None:
            permit = permit._newer
        return permit

    def renewed(self, newer: "SendPermit") -> None:
        """Whoever still has this one means the newer one from now on."""
        object.__setattr__(self, "_newer", newer)

    def __str__(self) -> str:
        doubt = ", an earlier try may have arrived" if self.in_doubt else ""
        return f"{self.declared} of {shown_key(self.key)} is {self.by}'s to send{doubt}"


(
    _set_key,
    _set_declared,
    _set_parts,
    _set_fence,
    _set_by,
    _set_attempt,
    _set_state,
    _set_in_doubt,
    _set_deadline,
    _set_row,
    _set_newer,
) = (getattr(SendPermit, one.name).__set__ for one in fields(SendPermit))


@dataclass(frozen=True, slots=True)
class SendRefused(UnreachedAnswer):
    """Another process sends or has sent, or the outcome of the last attempt is unknown and waits for an operator."""

    key: Any
    declared: Delivery
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
                what = "is being sent by another process"
        return f"{self.declared} of {shown_key(self.key)} {what}{who}"


@dataclass(frozen=True, slots=True)
class DeliveryRecorded(ReachedAnswer):
    """The outcome was recorded in the row."""

    won: ClassVar[Literal[True]] = True

    key: Any
    declared: Delivery
    state: DeliveryState

    @property
    def outcome(self) -> str:
        return str(self.state)

    def __str__(self) -> str:
        return f"{self.declared} of {shown_key(self.key)} is {self.state}"


@dataclass(frozen=True, slots=True)
class PermitLost(UnreachedAnswer):
    """The permit is no longer this caller's: it was taken over, or has ended; `state` is what was found."""

    outcome: ClassVar[str] = "lost"

    key: Any
    declared: Delivery
    state: DeliveryState
    by: str | None = None

    def __str__(self) -> str:
        who = f" (by {self.by})" if self.by else ""
        return f"{self.declared} of {shown_key(self.key)} is not this caller's any more: it is {self.state}{who}"


SendAnswer = SendPermit | SendRefused | Missing[Any] | Unknown[Any] | Conflict[Any]
RecordAnswer = DeliveryRecorded | PermitLost | Missing[Any] | Unknown[Any] | Conflict[Any]


class NotSent(Exception):
    """Raise it in the body of `deliver_once` when the send has failed for sure: the next try may follow at once."""


@dataclass(frozen=True, slots=True)
class UnfinishedDelivery:
    """A delivery that is being sent, or whose outcome is unknown, as people read it."""

    key: Any
    state: str
    holder: str | None
    since: datetime | None
    attempts: int | None
    error: str | None
