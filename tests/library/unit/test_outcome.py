"""Answers are values that cannot be mistaken for a truth."""

from typing import Any

import pytest

from raceproof import (
    Already,
    AlreadyActive,
    Attempts,
    Conflict,
    Delivery,
    DeliveryRecorded,
    Inbox,
    Lease,
    LeaseGranted,
    LeaseHeldByOther,
    Lifecycle,
    Lost,
    Missing,
    Moved,
    NotReached,
    PermitLost,
    Received,
    Refused,
    SendPermit,
    SendRefused,
    Started,
    Unknown,
    move,
)
from raceproof.attempts import Rejected
from raceproof.deliveries import DeliveryState
from raceproof.leases import LeaseReleased
from raceproof.moves import Answer
from tests.library.unit.test_lifecycle import Parcel, Status

KEY = ("shop", 7)

ANSWERS: list[Answer[Any, Any]] = [
    Moved(KEY, Parcel.send, Status.NEW, 1, None),
    Already(KEY, Parcel.send, 1, "ann"),
    Refused(KEY, Parcel.send, Status.DONE, 1, (), "ann"),
    Refused(KEY, Parcel.finish, Status.SENT, 1, ("paid = 1",)),
    Missing(KEY, Parcel.send),
    Lost(KEY, Parcel.send, Status.NEW, 9, 1),
    Unknown(KEY, Parcel.send, "call-1", ConnectionError("cut")),
    Conflict(KEY, Parcel.send, RuntimeError("could not serialize access")),
]
ids = ["moved", "already", "refused by status", "refused by guard", "missing", "lost", "unknown", "conflict"]

LEASE, PICTURE = Lease("bot"), Delivery("picture", "pictures")


class Errand(Lifecycle[Status], table="errands"):
    send = move(Status.NEW, to=Status.SENT)
    end = move(Status.NEW, Status.SENT, to=Status.DONE)


PARCELS = Attempts(Errand, owner="who", supersede=Errand.end)
OTHERS: list[Any] = [
    LeaseGranted(LEASE, "ann", 1, 0.0),
    LeaseReleased(LEASE, "ann", 1),
    LeaseHeldByOther(LEASE, "ann", 1, None),
    SendPermit(KEY, PICTURE, (KEY,), 1, "ann", 1, DeliveryState.SENDING, False, 0.0),
    SendRefused(KEY, PICTURE, DeliveryState.DELIVERED),
    DeliveryRecorded(KEY, PICTURE, DeliveryState.DELIVERED),
    PermitLost(KEY, PICTURE, DeliveryState.SENDING),
    Started(KEY, PARCELS, "ann"),
    AlreadyActive(KEY, PARCELS, "ann", "NEW"),
    Rejected(KEY, PARCELS, "ann", "NEW"),
    Received(("telegram", "1"), Inbox("inbox"), False),
]
every = pytest.mark.parametrize("answer", ANSWERS + OTHERS, ids=[*ids, *(type(one).__name__ for one in OTHERS)])


@every
def test_an_answer_is_neither_true_nor_false(answer: Answer[Any, Any]) -> None:
    """`if answer:` would always be true, so it raises."""
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(answer)


@every
def test_must_returns_what_reached_and_raises_the_rest(answer: Answer[Any, Any]) -> None:
    """The error carries the answer."""
    assert answer.reached or not answer.won
    if answer.reached:
        assert answer.must() is answer
    else:
        with pytest.raises(NotReached) as caught:
            answer.must()
        assert caught.value.answer is answer


@pytest.mark.parametrize("answer", ANSWERS, ids=ids)
def test_an_answer_says_what_happened_to_which_row(answer: Answer[Any, Any]) -> None:
    """In words that a log line can have."""
    assert "('shop', 7)" in str(answer)
    assert str(answer.declared) in str(answer)


def test_only_moved_has_won() -> None:
    """And only moved and already have reached the target."""
    assert [answer.outcome for answer in ANSWERS if answer.won] == ["moved"]
    assert [answer.outcome for answer in ANSWERS if answer.reached] == ["moved", "already"]


def test_answers_match_by_shape() -> None:
    """For `match`, with the fields that matter."""
    match ANSWERS[2]:
        case Refused(status=Status.DONE, by="ann") as refused:
            assert refused.allowed == ()
        case _:
            pytest.fail("did not match")
