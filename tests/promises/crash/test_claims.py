"""Workers that die or stand still while they hold a row (P3, P4, P5, P13): the row is never lost, the zombie never heard."""

import os
import signal
from typing import Any

import pytest

from raceproof import Claim, Lost, Moved, Store, connect
from raceproof.declare import Spec
from raceproof.testing.contract.jobs import FORMS, jobs
from tests.promises.crash.actors import Actor, Outside, Stage
from tests.promises.crash.waiting import until
from tests.promises.race.beside import beside
from tests.promises.race.places import Place
from tests.standstill import stand_still

LEASE = 0.1
HOW = pytest.mark.parametrize("how", ["killed", "stopped"])


def prepared(place: Place, *keys: str, form: str = "columns", **claim: Any) -> Spec[str]:
    with beside(place) as ground, connect(place.url) as db:
        spec = jobs(
            ground,
            form,
            history=True,
            claim={"lease": LEASE, "max_attempts": None, "dead_letter": None, **claim},
        )
        for number, key in enumerate(keys):
            ground.put(spec, key, "QUEUED", made_at=number)
        db.offer(spec.claims["work"], keys)
    return spec


def work(place: Place, spec: Spec[str], outside: Outside, name: str, stage: Stage) -> None:
    """Claim a row, send something, finish; in each window it can be stopped."""
    with connect(place.url) as db:
        (mine,) = db.claim(spec.claims["work"], by=name)
        stage.reach("claimed", mine.fence)
        outside.send(key=mine.key, fence=mine.fence, by=name)
        stage.reach("sent")
        answer = db.move(spec.moves["finish"], mine, set={"result": name}, by=name)
        stage.reach("marked", answer.outcome)


def taken_over(db: Store, spec: Spec[str]) -> Claim[str, Any]:
    """The row, as soon as the store says that its lease is over."""
    (mine,) = until(lambda: db.claim(spec.claims["work"], 10, by="next"), lambda claims: len(claims) > 0)
    return mine


@HOW
@pytest.mark.parametrize(
    ("form", "window"),
    [("columns", "claimed"), ("columns", "sent"), ("timestamp", "claimed"), ("marker", "sent")],
)
def test_a_worker_that_goes_away_before_its_mark_is_replaced_after_the_lease(
    place: Place, db: Store, outside: Outside, window: str, form: str, how: str
) -> None:
    """One finish is accepted, the next one's; a second effect carries a newer fence, and is told to be a second attempt."""
    spec = prepared(place, "j", form=form)
    with Actor(lambda stage: work(place, spec, outside, "first", stage)) as first:
        (fence,) = first.until("claimed")
        if window == "sent":
            first.go()
            first.until("sent")
        first.kill() if how == "killed" else first.stop()
        mine = taken_over(db, spec)
        assert (mine.attempt, mine.taken_over) == (2, True)
        assert str(mine.fence) > str(fence) if form != "marker" else mine.fence != fence
        outside.send(key=mine.key, fence=mine.fence, by="next")
        if how == "stopped":
            # it wakes up while the next one is at work, and knows nothing
            first.resume()
            first.go()
            if window == "claimed":
                first.until("sent")
                first.go()
            assert first.until("marked") == ("lost",)
        assert isinstance(db.move(spec.moves["finish"], mine, set={"result": "next"}, by="next"), Moved)
    check(place, db, spec, "j", "next", attempts=2)
    # what was sent, and why: once by each that was told to hold the row; nothing twice with one fence
    senders = ["next"] if (window, how) == ("claimed", "killed") else ["first", "next"]
    assert sorted(outside.names("by")) == senders
    assert len(set(outside.names("fence"))) == len(senders)
    if form != "marker":
        # a receiver that remembers the newest fence refuses what the zombie sends late
        accepted = [effect["by"] for effect in fenced(outside.effects)]
        assert accepted == (["first", "next"] if window == "sent" else ["next"])


def fenced(effects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a receiver accepts that refuses older fences than the newest it has seen."""
    accepted, newest = [], ""
    for effect in effects:
        if str(effect["fence"]) >= newest:
            newest = str(effect["fence"])
            accepted.append(effect)
    return accepted


def check(place: Place, db: Store, spec: Spec[str], key: str, result: str, attempts: int) -> None:
    """The row is finished once, by whom it says, and the history has each claim and one finish."""
    with beside(place) as ground:
        row = ground.get(spec, key)
    assert (row["status"], row["result"], row["attempts"]) == ("DONE", result, str(attempts))
    entries = list(reversed(db.history(spec, key)))
    assert [entry.move for entry in entries] == ["start"] * attempts + ["finish"]
    assert [entry.outcome for entry in entries] == ["moved"] + ["claimed"] * (attempts - 1) + ["moved"]
    assert entries[-1].actor == result
    assert db.claim(spec.claims["work"], 10) == []


@HOW
def test_a_worker_that_goes_away_after_its_mark_is_not_replaced(
    place: Place, db: Store, outside: Outside, how: str
) -> None:
    """The row is done; the end of the lease changes nothing."""
    spec = prepared(place, "j", "clock")
    with Actor(lambda stage: work(place, spec, outside, "first", stage)) as first:
        for point in ("claimed", "sent"):
            first.until(point)
            first.go()
        assert first.until("marked") == ("moved",)
        first.kill() if how == "killed" else first.stop()
        # another row that is claimed now tells when the lease would be over
        (clock,) = db.claim(spec.claims["work"], 10)
        assert clock.key == "clock"
        assert taken_over(db, spec).key == "clock"
    check(place, db, spec, "j", "first", attempts=1)
    assert outside.names("by") == ["first"]


@HOW
@pytest.mark.parametrize("form", FORMS)
def test_a_worker_that_goes_away_while_it_renews_holds_the_row_until_then_and_no_longer(
    place: Place, db: Store, form: str, how: str
) -> None:
    """Wherever in a renewal it was hit: one more lease, then the next one has it, and the zombie's renewal is lost."""
    spec = prepared(place, "j", form=form)

    def renew(stage: Stage) -> None:
        with connect(place.url) as own:
            (mine,) = own.claim(spec.claims["work"], by="first")
            stage.tell("claimed")
            while True:
                (answer,) = own.renew(mine)
                if not isinstance(answer, Claim):
                    stage.tell("lost", answer.outcome)
                    return
                mine = answer
                stage.tell("renewed")

    with Actor(renew) as first:
        first.until("claimed")
        (seen,) = db.claims(spec.claims["work"])
        # long after the first lease it is still the same attempt of the same holder
        until(lambda: db.claims(spec.claims["work"])[0].until, lambda moment: moment > seen.until)
        (held,) = db.claims(spec.claims["work"])
        assert (held.key, held.attempts) == ("j", 1)
        first.until("renewed")
        if how == "killed":
            first.kill()
        else:
            stand_still(first.pid, place.url)
        mine = taken_over(db, spec)
        assert (mine.attempt, mine.taken_over) == (2, True)
        if how == "stopped":
            first.resume()
            assert first.until("lost") == (Lost.outcome,)
        assert isinstance(db.move(spec.moves["finish"], mine, set={"result": "next"}, by="next"), Moved)
    check(place, db, spec, "j", "next", attempts=2)


def test_workers_killed_at_any_instant_lose_no_row_and_finish_none_twice(place: Place, outside: Outside) -> None:
    """Six workers in a row are killed wherever they are; what they left is worked off, and the books agree."""
    keys = [f"j{number}" for number in range(60)]
    spec = prepared(place, *keys)

    def part(stage: Stage) -> None:
        name = f"worker {os.getpid()}"
        with connect(place.url) as own:
            # at most nine rows each, so that the last finds some, however late the kills come
            for _ in range(3):
                for one in own.claim(spec.claims["work"], 3, by=name):
                    outside.send(key=one.key, fence=one.fence, by=name, attempt=one.attempt)
                    answer = own.move(spec.moves["finish"], one, set={"result": name}, by=name)
                    stage.tell("finished", answer.outcome)
        signal.pause()

    for number in range(6):
        with Actor(part) as worker:
            for _ in range(number + 1):
                worker.until("finished")
            worker.kill()
    with connect(place.url) as db:
        while any((db.read(spec, key) or {})["status"] != "DONE" for key in keys):
            for one in db.claim(spec.claims["work"], 10, by="last", lease=60):
                outside.send(key=one.key, fence=one.fence, by="last", attempt=one.attempt)
                assert isinstance(db.move(spec.moves["finish"], one, set={"result": "last"}, by="last"), Moved)
        account(db, spec, keys, outside)


def account(db: Store, spec: Spec[str], keys: list[str], outside: Outside) -> None:
    """Each row was finished once; each effect belongs to a claim of its own; a second one to a second attempt."""
    effects = outside.effects
    for key in keys:
        entries = list(reversed(db.history(spec, key)))
        claims, finishes = entries[:-1], entries[-1:]
        assert [entry.move for entry in finishes] == ["finish"]
        assert [entry.outcome for entry in claims] == ["moved"] + ["claimed"] * (len(claims) - 1)
        sent = [effect for effect in effects if effect["key"] == key]
        assert sent, f"{key} was finished without its effect"
        assert len(sent) <= len(claims)
        assert len({effect["fence"] for effect in sent}) == len(sent)
        # whoever finished had the newest claim; what carries an older fence came from one that was presumed dead
        assert max(sent, key=lambda effect: int(effect["fence"]))["by"] == finishes[0].actor
        assert {effect["attempt"] for effect in sent} <= set(range(1, len(claims) + 1))
