"""Deliveries under real races (P5, P7): eight processes want to send the same things."""

from collections import Counter
from typing import Any

import pytest

from raceproof import Delivery, DeliveryRecorded, PermitLost, SendPermit, SendRefused, connect
from raceproof.declare import Spec
from raceproof.deliveries import DeliveryState
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.pictures import pictures
from tests.promises.race.beside import beside, write
from tests.promises.race.places import Place
from tests.promises.race.processes import Barrier, race

WORKERS = 8
BOTH = pytest.mark.parametrize("told", [False, True], ids=["two timestamps", "all columns"])


def prepared(place: Place, keys: list[str], told: bool, **changes: Any) -> tuple[Delivery, Spec[str]]:
    with beside(place) as ground:
        delivery, spec = pictures(ground, told, **changes)
        for key in keys:
            ground.put(spec, key, "x")
    return delivery, spec


@BOTH
def test_each_thing_is_sent_by_one_process(place: Place, told: bool) -> None:
    """P7: a callback, a poller and six others; one has the turn, and after its mark nobody has."""
    keys = [f"p{number}" for number in range(20)]
    delivery, spec = prepared(place, keys, told)

    def job(number: int, barrier: Barrier) -> list[str]:
        sent = []
        with connect(place.url) as db:
            for key in keys:
                barrier.wait()
                with db.deliver_once(delivery, key, by=f"process {number}") as permit:
                    if isinstance(permit, SendPermit):
                        assert not permit.in_doubt
                        sent.append(key)
                    else:
                        assert isinstance(permit, SendRefused)
                        assert permit.state in (DeliveryState.SENDING, DeliveryState.DELIVERED)
        return sent

    assert Counter(key for sent in race(job, WORKERS) for key in sent) == Counter(keys)
    with beside(place) as ground:
        for key in keys:
            row = ground.get(spec, key)
            assert row["delivered_at"] is not None
            assert row["delivering_at"] is None


@BOTH
def test_without_the_turn_the_same_thing_is_sent_several_times(place: Place, told: bool) -> None:
    """The control: read whether it was sent, send, then write that it was."""
    keys = [f"p{number}" for number in range(3)]
    _, spec = prepared(place, keys, told)

    def job(number: int, barrier: Barrier) -> list[str]:
        sent = []
        with beside(place) as ground:
            for key in keys:
                barrier.wait()
                unsent = ground.get(spec, key)["delivered_at"] is None
                barrier.wait()
                if unsent:
                    sent.append(key)
                    write(ground, spec, key, delivered_at="2030-01-01 00:00:00+00")
        return sent

    assert max(Counter(key for sent in race(job, WORKERS) for key in sent).values()) > 1


def test_after_a_clean_failure_exactly_one_other_tries_with_the_same_intent(place: Place) -> None:
    """P7: the first two tries of each fail for sure, the third arrives; there is no fourth."""
    keys = [f"p{number}" for number in range(8)]
    delivery, _ = prepared(place, keys, True)

    def job(number: int, barrier: Barrier) -> list[tuple[str, int | None, str, bool]]:
        tries = []
        with connect(place.url) as db:
            for key in keys:
                barrier.wait()
                while True:
                    permit = db.begin_delivery(delivery, key, by=f"process {number}")
                    if isinstance(permit, SendPermit):
                        tries.append((key, permit.attempt, permit.idempotency_key, permit.in_doubt))
                        if permit.attempt == 3:
                            assert isinstance(db.delivered(permit), DeliveryRecorded)
                        else:
                            assert isinstance(db.not_sent(permit, "refused"), DeliveryRecorded)
                    elif isinstance(permit, SendRefused) and permit.state is DeliveryState.DELIVERED:
                        break
        return tries

    tries = sorted(one for found in race(job, WORKERS) for one in found)
    assert [(key, attempt) for key, attempt, _, _ in tries] == sorted((k, a) for k in keys for a in (1, 2, 3))
    assert len({(key, intent) for key, _, intent, _ in tries}) == len(keys)
    assert not any(in_doubt for *_, in_doubt in tries)


@BOTH
def test_of_a_late_sender_and_those_who_take_over_exactly_one_wins(place: Place, told: bool) -> None:
    """P5: four end the old turn while four take it over; either it is delivered or one of them sends, never both."""
    keys = [f"p{number}" for number in range(15)]
    delivery, _ = prepared(place, keys, told)
    with connect(place.url) as db:
        late = {key: db.begin_delivery(delivery, key, by="late", now=NOON) for key in keys}

    def job(number: int, barrier: Barrier) -> list[tuple[str, bool]]:
        outcomes = []
        with connect(place.url) as db:
            for key in keys:
                permit = late[key]
                assert isinstance(permit, SendPermit)
                barrier.wait()
                if number % 2:
                    answer: Any = db.delivered(permit, now=after(301))
                    assert isinstance(answer, DeliveryRecorded | PermitLost)
                else:
                    answer = db.begin_delivery(delivery, key, by=f"process {number}", now=after(301))
                    assert isinstance(answer, SendPermit | SendRefused)
                    assert not isinstance(answer, SendPermit) or (
                        answer.in_doubt
                        and answer.idempotency_key == permit.idempotency_key
                        and answer.fence != permit.fence
                    )
                outcomes.append(("mark" if number % 2 else "turn", answer.won))
        return outcomes

    for outcomes in zip(*race(job, WORKERS), strict=True):
        assert sum(won for _, won in outcomes) == 1, outcomes


def test_what_is_held_is_sent_again_by_nobody(place: Place) -> None:
    """P7: in mode hold an unknown end stays one, however many come, until somebody has looked."""
    keys = [f"p{number}" for number in range(10)]
    delivery, _ = prepared(place, keys, True, policy="hold")
    with connect(place.url) as db:
        for key in keys:
            assert isinstance(db.begin_delivery(delivery, key, by="gone", now=NOON), SendPermit)

    def job(number: int, barrier: Barrier) -> list[str]:
        with connect(place.url) as db:
            barrier.wait()
            return [db.begin_delivery(delivery, key, now=after(1000)).outcome for key in keys]

    assert {outcome for outcomes in race(job, WORKERS) for outcome in outcomes} == {"uncertain"}


@BOTH
def test_a_turn_taken_right_after_the_last_one_failed_has_another_fence(place: Place, told: bool) -> None:
    """P4, P5: the first sender repeats its mark (its acknowledgement was lost) and must not end the second's turn."""
    delivery, _ = prepared(place, ["p"], told)
    with connect(place.url) as db:
        for _ in range(50):
            first = db.begin_delivery(delivery, "p", by="first")
            assert isinstance(first, SendPermit)
            db.not_sent(first)
            second = db.begin_delivery(delivery, "p", by="second")
            assert isinstance(second, SendPermit)
            assert isinstance(db.not_sent(first), PermitLost)
            db.not_sent(second)
