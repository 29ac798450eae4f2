"""A server that is killed and comes back while processes claim, send, start, lead and take in: the books agree."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from raceproof import DeliveryRecorded, Inbox, LeaseGranted, PermitLost, SendPermit, Started, connect
from raceproof.declare import Spec
from raceproof.inbox import Arrival
from raceproof.testing import Server, postgres, valkey
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.pictures import pictures
from tests.library.leader.fix_leading import prepared as a_lamp
from tests.promises.crash.actors import Outside, Stage
from tests.promises.crash.mortal import Patient, place_of, through_two_crashes
from tests.promises.crash.test_claims import account, prepared
from tests.promises.crash.waiting import until
from tests.promises.race.beside import beside
from tests.promises.race.places import Place
from tests.promises.race.test_attempts import open_ones

ROWS = 60
SHORT = 0.2


@pytest.fixture(params=["postgres", "valkey"])
def mortal(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server to maltreat."""
    # with everysec an answered write may be on its way to the file for two seconds, and die with the process
    with postgres() if request.param == "postgres" else valkey(appendfsync="always") as server:
        yield server


def test_workers_lose_no_row_and_finish_none_twice(mortal: Server, outside: Outside) -> None:
    """Each finish that was told is in the history once, and nothing else is."""
    place = place_of(mortal)
    keys = [f"j{number}" for number in range(ROWS)]
    spec = prepared(place, *keys)
    work, finish = spec.claims["work"], spec.moves["finish"]

    def part(stage: Stage) -> None:
        name = f"worker {os.getpid()}"
        patient = Patient(stage)
        with connect(place.url) as db:
            while True:
                for one in patient.asked(db.claim, work, 2, by=name):
                    outside.send(key=one.key, fence=one.fence, by=name, attempt=one.attempt)
                    call = f"finish {one.key} {one.fence}"
                    patient.asked(db.move, finish, one, set={"result": name}, by=name, call=call)
                    patient.done()

    with through_two_crashes(mortal, part) as actors:
        for actor in actors:
            for _ in range(ROWS):
                actor.go()
        _until_all_are_done(place, spec, keys)
    with connect(place.url) as db:
        account(db, spec, keys, outside)


def _until_all_are_done(place: Place, spec: Spec[str], keys: list[str]) -> None:
    with connect(place.url) as db:
        until(
            lambda: [key for key in keys if (db.read(spec, key) or {})["status"] != "DONE"],
            lambda left: not left,
        )


def test_senders_send_a_second_time_only_in_doubt(mortal: Server, outside: Outside) -> None:
    """Everything is delivered; a second effect has the intent of the first, and knew that there may have been one."""
    place = place_of(mortal)
    keys = [f"p{number}" for number in range(ROWS)]
    with beside(place) as ground:
        delivery, spec = pictures(ground, told=True, stale=SHORT)
        for key in keys:
            ground.put(spec, key, "x")

    def part(stage: Stage) -> None:
        name = f"sender {os.getpid()}"
        patient = Patient(stage)
        with connect(place.url) as db:
            while True:
                for key in keys:
                    permit = patient.asked(db.begin_delivery, delivery, key, by=name)
                    if isinstance(permit, SendPermit):
                        outside.send(
                            key=key,
                            idempotency_key=permit.idempotency_key,
                            doubt=permit.in_doubt,
                            attempt=permit.attempt,
                        )
                        assert isinstance(patient.asked(db.delivered, permit), DeliveryRecorded | PermitLost)
                        patient.done()

    with through_two_crashes(mortal, part) as actors:
        for actor in actors:
            for _ in range(ROWS):
                actor.go()
        with connect(place.url) as db:
            until(
                lambda: [key for key in keys if not (db.read(spec, key) or {}).get("delivered_at")],
                lambda left: not left,
            )
    for key in keys:
        effects = [effect for effect in outside.effects if effect["key"] == key]
        assert effects
        assert len({effect["idempotency_key"] for effect in effects}) == 1
        assert len({effect["attempt"] for effect in effects}) == len(effects)
        # the first one may follow a turn whose answer was lost, and then it is in doubt too
        assert all(effect["doubt"] for effect in sorted(effects, key=lambda one: one["attempt"])[1:])


def test_of_attempts_each_owner_has_one_and_each_start_was_one(mortal: Server, outside: Outside) -> None:
    """A start that is asked for again, because nobody knows its end, is the same start."""
    place = place_of(mortal)
    owners = [f"owner {number}" for number in range(4)]
    with beside(place) as ground:
        attempts, login = logins(ground, history=True)

    def part(stage: Stage) -> None:
        patient = Patient(stage)
        with connect(place.url) as db:
            for number in range(10**6):
                key = f"{os.getpid()}-{number}"
                owner = owners[number % len(owners)]
                answer = patient.asked(db.start_attempt, attempts, owner, key)
                # a start that nobody answered may have been superseded before it was asked for again
                assert isinstance(answer, Started) or answer.status == "superseded"
                outside.send(key=key, owner=owner)
                patient.done()

    with through_two_crashes(mortal, part):
        pass
    with beside(place) as ground, connect(place.url) as db:
        started = {effect["key"]: effect["owner"] for effect in outside.effects}
        rows = {key: ground.get(login, key) for key in started}
        for key, row in rows.items():
            entries = [entry.move for entry in reversed(db.history(login, key))]
            assert entries == ["attempt"] + ["supersede"] * (row["status"] == "superseded")
        ended = [row["superseded_by"] for row in rows.values() if row["superseded_by"]]
        assert len(set(ended)) == len(ended), "two attempts have the same successor"
        active = Counter((db.read(login, key) or {})["owner"] for key in open_ones(ground, login))
    assert active == dict.fromkeys(owners, 1)


def test_of_leaders_no_older_epoch_writes_after_a_newer_one(mortal: Server) -> None:
    """The history has the epochs of all that was accepted, in its order."""
    place = place_of(mortal)
    lease, lamp = a_lamp(place, SHORT)

    def part(stage: Stage) -> None:
        name = f"node {os.getpid()}"
        patient = Patient(stage)
        switches = [lamp.moves["switch_on"], lamp.moves["switch_off"]]
        with connect(place.url) as db:
            while True:
                mine = patient.asked(db.acquire_lease, lease, name)
                if not isinstance(mine, LeaseGranted):
                    continue
                for permit in range(4):
                    guard = db.lease_guard(mine)
                    patient.asked(db.move, switches[permit % 2], "lamp", where=guard, reason=str(mine.epoch))
                patient.asked(db.release_lease, mine)
                patient.done()

    with through_two_crashes(mortal, part):
        pass
    with connect(place.url) as db:
        entries = db.history(lamp, "lamp", limit=10_000)
    epochs = [int(entry.reason or 0) for entry in reversed(entries)]
    assert len(set(epochs)) > 2
    assert epochs == sorted(epochs)


def test_every_event_that_was_answered_is_there_and_is_claimed_once(mortal: Server, outside: Outside) -> None:
    """Nobody was answered before its event was durable; what was brought again is one event."""
    place = place_of(mortal)
    inbox = Inbox(fresh_name("inbox"))
    with beside(place) as ground:
        ground.inbox_table(inbox)

    def part(stage: Stage) -> None:
        patient = Patient(stage)
        with connect(place.url) as db:
            for number in range(10**6):
                event = f"{os.getpid()}-{number}"
                patient.asked(db.receive, inbox, Arrival("s", event, b"{}"))
                outside.send(event=event)
                patient.done()

    with through_two_crashes(mortal, part):
        pass
    answered = outside.names("event")
    with connect(place.url) as db:
        claimed = [one.key[1] for one in db.claim(inbox.work, len(answered) + 100)]
    assert len(set(claimed)) == len(claimed)
    assert set(answered) <= set(claimed)
    # the last thing that each of them did may not have been told
    assert len(claimed) - len(answered) <= 3
