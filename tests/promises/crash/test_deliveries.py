"""Senders that die or stand still between their turn and their mark (P5, P7): no second effect without a reason."""

from typing import Any

import pytest

from raceproof import Delivery, DeliveryRecorded, SendPermit, SendRefused, Store, connect
from raceproof.declare import Spec
from raceproof.deliveries import DeliveryState
from raceproof.testing.contract.pictures import pictures
from tests.promises.crash.actors import Actor, Outside, Stage
from tests.promises.crash.waiting import until
from tests.promises.race.beside import beside
from tests.promises.race.places import Place

STALE = 0.1
HOW = pytest.mark.parametrize("how", ["killed", "stopped"])
WINDOWS = pytest.mark.parametrize(
    ("window", "told"),
    [("taken", True), ("sent", False), ("sent", True)],
    ids=["taken", "sent, two timestamps", "sent"],
)


def prepared(place: Place, told: bool, **changes: Any) -> tuple[Delivery, Spec[str]]:
    with beside(place) as ground:
        return pictures(ground, told, stale=STALE, **changes)


def send(place: Place, delivery: Delivery, outside: Outside, stage: Stage, reserve: bool = False) -> None:
    """Take the turn, send, mark; in each window it can be stopped."""
    with connect(place.url) as db:
        permit: Any = db.begin_delivery(delivery, "a", by="first", reserve=reserve)
        stage.reach("taken", permit.idempotency_key)
        if reserve:
            permit = db.sending(permit)
            stage.tell("sending", permit.outcome)
            if not isinstance(permit, SendPermit):
                return
        outside.send(idempotency_key=permit.idempotency_key, by="first")
        stage.reach("sent")
        answer = db.delivered(permit)
        stage.reach("marked", answer.outcome)


def gone_in(first: Actor, window: str, how: str) -> tuple[Any, ...]:
    """The sender is killed or stopped when it has got so far; says what it told of its turn."""
    told = first.until("taken")
    if window == "sent":
        first.go()
        first.until("sent")
    first.kill() if how == "killed" else first.stop()
    return told


def back_from(first: Actor, window: str) -> tuple[Any, ...]:
    """A stopped sender goes on to its end; says what its mark was answered."""
    first.resume()
    first.go()
    if window == "taken":
        first.until("sent")
        first.go()
    return first.until("marked")


def next_turn(db: Store, delivery: Delivery) -> SendPermit:
    """The turn, as soon as the store says that the sender is gone."""
    permit = until(lambda: db.begin_delivery(delivery, "a", by="next"), lambda answer: isinstance(answer, SendPermit))
    assert isinstance(permit, SendPermit)
    return permit


@HOW
@WINDOWS
def test_a_sender_that_goes_away_is_replaced_by_one_that_knows_of_the_doubt(
    place: Place, db: Store, outside: Outside, window: str, told: bool, how: str
) -> None:
    """Resend: at least once, with one intent, so that a receiver that deduplicates has one effect; one mark is accepted."""
    delivery, spec = prepared(place, told)
    with Actor(lambda stage: send(place, delivery, outside, stage)) as first:
        (intent,) = gone_in(first, window, how)
        permit = next_turn(db, delivery)
        assert (permit.in_doubt, permit.idempotency_key, permit.attempt) == (
            True,
            intent,
            2 if told else None,
        )
        outside.send(idempotency_key=permit.idempotency_key, by="next")
        if how == "stopped":
            assert back_from(first, window) == ("lost",)
            with beside(place) as ground:
                assert ground.get(spec, "a")["delivered_at"] is None
        assert isinstance(db.delivered(permit), DeliveryRecorded)
    assert set(outside.names("idempotency_key")) == {intent}
    assert sorted(outside.names("by")) == (["next"] if (window, how) == ("taken", "killed") else ["first", "next"])
    again = db.begin_delivery(delivery, "a")
    assert isinstance(again, SendRefused)
    assert again.state is DeliveryState.DELIVERED


@HOW
@WINDOWS
def test_what_is_held_is_never_sent_twice_whatever_happens_to_its_sender(
    place: Place, db: Store, outside: Outside, window: str, told: bool, how: str
) -> None:
    """Hold: at most once, and the unknown is shown; a sender that wakes up may still say what it has done."""
    delivery, _ = prepared(place, told, policy="hold")
    with Actor(lambda stage: send(place, delivery, outside, stage)) as first:
        gone_in(first, window, how)
        held: Any = until(
            lambda: db.begin_delivery(delivery, "a", by="next"),
            lambda answer: isinstance(answer, SendRefused) and answer.state is DeliveryState.UNCERTAIN,
        )
        assert not held.won
        if how == "stopped":
            assert back_from(first, window) == ("delivered",)
        else:
            assert isinstance(db.resolve(delivery, "a", arrived=window == "sent", by="ops"), DeliveryRecorded)
            if window == "taken":
                permit = db.begin_delivery(delivery, "a", by="next")
                assert isinstance(permit, SendPermit)
                outside.send(idempotency_key=permit.idempotency_key, by="next")
                assert isinstance(db.delivered(permit), DeliveryRecorded)
    assert len(outside.effects) == 1
    assert not db.begin_delivery(delivery, "a").won


@HOW
def test_a_sender_that_goes_away_before_it_sends_leaves_no_doubt(
    place: Place, db: Store, outside: Outside, how: str
) -> None:
    """Reserved is not sending: also in mode hold the next one sends, and the zombie learns in time that it must not."""
    delivery, _ = prepared(place, True, policy="hold")
    with Actor(lambda stage: send(place, delivery, outside, stage, reserve=True)) as first:
        first.until("taken")
        first.kill() if how == "killed" else first.stop()
        permit = next_turn(db, delivery)
        assert not permit.in_doubt
        outside.send(idempotency_key=permit.idempotency_key, by="next")
        if how == "stopped":
            first.resume()
            first.go()
            assert first.until("sending") == ("lost",)
        assert isinstance(db.delivered(permit), DeliveryRecorded)
    assert outside.names("by") == ["next"]


@HOW
def test_a_sender_that_goes_away_after_its_mark_leaves_nothing_to_do(
    place: Place, db: Store, outside: Outside, how: str
) -> None:
    """Delivered is delivered."""
    delivery, _ = prepared(place, False)
    with Actor(lambda stage: send(place, delivery, outside, stage)) as first:
        for point in ("taken", "sent"):
            first.until(point)
            first.go()
        assert first.until("marked") == ("delivered",)
        first.kill() if how == "killed" else first.stop()
        assert not db.begin_delivery(delivery, "a").won
    assert outside.names("by") == ["first"]
