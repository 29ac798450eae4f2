"""Claims under real races (P3, P4, P5): eight processes, each with a connection of its own, all after the same rows."""

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest

from raceproof import Claim, Lease, LeaseGranted, Lost, Moved, Released, Taken, bind, connect
from raceproof.declare import Spec
from raceproof.testing import PostgresServer
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.jobs import ALL_FORMS, jobs
from tests.fix_beside import runner
from tests.fix_waiting import blocked
from tests.promises.race.beside import beside, keys_at, write
from tests.promises.race.places import Place, PostgresPlace
from tests.promises.race.processes import Barrier, race

WORKERS = 8
T = TypeVar("T")


def prepared(place: Place, keys: list[str], form: str = "columns", **settings: Any) -> Spec[str]:
    """Jobs that wait."""
    with beside(place) as ground, connect(place.url) as db:
        spec = jobs(ground, form, **settings)
        for number, key in enumerate(keys):
            ground.put(spec, key, "QUEUED", made_at=number)
        db.offer(spec.claims["work"], keys)
    return spec


@ALL_FORMS
def test_every_row_is_claimed_exactly_once(place: Place, form: str) -> None:
    """P3: eight processes take batches until nothing is left; nobody gets what another one has."""
    keys = [f"j{number}" for number in range(100)]
    spec = prepared(place, keys, form)

    def job(number: int, barrier: Barrier) -> list[str]:
        found: list[str] = []
        with connect(place.url) as db:
            barrier.wait()
            while len(found) < len(keys):
                claims = db.claim(spec.claims["work"], 7, by=f"process {number}")
                found += [one.key for one in claims]
                if not claims and not db.claim(spec.claims["work"], 7, by=f"process {number}"):
                    break
        return found

    claimed = Counter(key for found in race(job, WORKERS) for key in found)
    # a search that skips locked rows may come back empty while others are still deciding: the rest is there to be claimed
    with connect(place.url) as db:
        claimed.update(one.key for one in db.claim(spec.claims["work"], len(keys)))
    assert claimed == Counter(keys)


def test_without_the_guard_a_row_is_claimed_several_times(place: Place) -> None:
    """The control: select a row that waits, then update it, as people do."""
    spec = prepared(place, [f"j{number}" for number in range(3)])

    def job(number: int, barrier: Barrier) -> list[str]:
        found = []
        with beside(place) as ground:
            for _ in range(3):
                barrier.wait()
                key = min(keys_at(ground, spec, "QUEUED"), default=None)
                barrier.wait()
                if key is not None:
                    write(ground, spec, key, status="RUNNING", claimed_by=f"process {number}")
                    found.append(key)
        return found

    claimed = Counter(key for found in race(job, WORKERS) for key in found)
    assert max(claimed.values()) > 1


@pytest.mark.parametrize("form", ["columns", "marker"])
def test_the_fences_of_a_row_are_never_repeated_and_grow(place: Place, form: str) -> None:
    """P4: a row goes from hand to hand; its revision tells the order in which it was claimed."""
    spec = prepared(place, ["j"], form)

    def job(number: int, barrier: Barrier) -> list[tuple[int, str]]:
        found = []
        with connect(place.url) as db:
            barrier.wait()
            for _ in range(25):
                mine = db.claim_one(spec.claims["work"], "j", by=f"process {number}", returning=["rev"])
                if isinstance(mine, Claim):
                    found.append((int(mine.row["rev"]), str(mine.fence)))
                    assert isinstance(db.release(mine)[0], Released)
                else:
                    assert isinstance(mine, Taken)
        return found

    told = sorted(one for found in race(job, WORKERS) for one in found)
    fences = [fence for _, fence in told]
    assert len(told) > 1
    assert len(set(fences)) == len(fences)
    if form == "columns":
        assert fences == sorted(fences)


def test_a_row_given_back_and_claimed_again_at_once_has_another_fence(place: Place) -> None:
    """P4: SQLite's clock has milliseconds, and a row is handed on in less."""
    spec = prepared(place, ["j"], "timestamp")
    fences = set()
    with connect(place.url) as db:
        for _ in range(100):
            first = db.claim_one(spec.claims["work"], "j", by="first")
            assert isinstance(first, Claim)
            db.release(first)
            second = db.claim_one(spec.claims["work"], "j", by="second")
            assert isinstance(second, Claim)
            assert isinstance(db.renew(first)[0], Lost)
            db.release(second)
            fences |= {first.fence, second.fence}
    assert len(fences) == 200


@ALL_FORMS
def test_of_a_late_holder_and_those_who_take_over_exactly_one_wins(place: Place, form: str) -> None:
    """P3, P4, P5: four finish with the old claim while four claim the row whose lease is over."""
    keys = [f"j{number}" for number in range(15)]
    spec = prepared(place, keys, form)
    with connect(place.url) as db:
        late = {one.key: one for one in db.claim(spec.claims["work"], len(keys), by="late", now=NOON)}
    assert len(late) == len(keys)

    def job(number: int, barrier: Barrier) -> list[str]:
        told = []
        with connect(place.url) as db:
            for key in keys:
                answer: Any
                barrier.wait()
                if number % 2:
                    answer = db.move(spec.moves["finish"], late[key], now=after(31))
                else:
                    answer = db.claim_one(spec.claims["work"], key, by=f"process {number}", now=after(31))
                told.append(answer.outcome)
        return told

    for key, outcomes in zip(keys, zip(*race(job, WORKERS), strict=True), strict=True):
        finished, claimed = outcomes[1::2], outcomes[0::2]
        wins = Counter(outcomes)
        assert wins["moved"] + wins["claimed"] == 1, (key, outcomes)
        if wins["claimed"]:
            assert set(finished) == {Lost.outcome}
        else:
            # the winner's three fellows carry the same claim, which ended with the move
            assert set(finished) <= {Moved.outcome, "already", "lost", "refused"}
            assert set(claimed) == {Taken.outcome}


@ALL_FORMS
def test_a_renewal_and_a_takeover_never_both_succeed(place: Place, form: str) -> None:
    """P3: at the end of the lease either the holder goes on or somebody else begins."""
    keys = [f"j{number}" for number in range(15)]
    spec = prepared(place, keys, form)
    with connect(place.url) as db:
        held = {one.key: one for one in db.claim(spec.claims["work"], len(keys), by="holder", now=NOON)}

    def job(number: int, barrier: Barrier) -> list[str]:
        told = []
        with connect(place.url) as db:
            for key in keys:
                answer: Any
                barrier.wait()
                if number == 0:
                    answer = db.renew(held[key], now=after(30.1))[0]
                else:
                    answer = db.claim_one(spec.claims["work"], key, by=f"process {number}", now=after(30.1))
                told.append(answer.outcome)
        return told

    for outcomes in zip(*race(job, WORKERS), strict=True):
        assert Counter(outcomes)["claimed"] == 1, outcomes
        assert set(outcomes) <= {"claimed", "taken", "lost"}


def test_of_one_line_nobody_starts_before_the_one_ahead_has_ended(place: Place) -> None:
    """Serial claims: eight processes work on four lines; at each claim everything earlier of its line is done."""
    lines, length = 4, 12
    with beside(place) as ground, connect(place.url) as db:
        spec = jobs(ground, claim={"ordering_key": "owner"})
        keys = [(f"{line}-{place_in:02}", line) for place_in in range(length) for line in range(lines)]
        for number, (key, line) in enumerate(keys):
            ground.put(spec, key, "QUEUED", made_at=number, owner=f"line {line}")
        db.offer(spec.claims["work"], [key for key, _ in keys])

    def status(db: Any, line: str, place_in: int) -> str | None:
        found = db.read(spec, f"{line}-{place_in:02}")
        return None if found is None else str(found["status"])

    def job(number: int, barrier: Barrier) -> list[str]:
        done: list[str] = []
        idle = 0
        with connect(place.url) as db:
            barrier.wait()
            while idle < 40:
                claims = db.claim(spec.claims["work"], 2, by=f"process {number}")
                idle = 0 if claims else idle + 1
                for one in claims:
                    line, _, text = one.key.partition("-")
                    assert status(db, line, int(text) - 1) in (None, "DONE")
                    assert status(db, line, int(text) + 1) in (None, "QUEUED")
                for one in claims:
                    assert isinstance(db.move(spec.moves["finish"], one), Moved)
                    done.append(one.key)
        return done

    done = Counter(key for found in race(job, WORKERS) for key in found)
    assert max(done.values()) == 1
    with connect(place.url) as db:
        while claims := db.claim(spec.claims["work"], 2):
            done.update(one.key for one in claims)
            db.move_many(spec.moves["finish"], claims)
    assert done == Counter(key for key, _ in keys)


def beside_a_decision(url: str, table: str, calling: Future[T]) -> T:
    """The answer of a call that must not wait for another transaction, which is told apart from one that is slow."""
    with psycopg.connect(url, autocommit=True) as watching:
        while not calling.done():
            assert not blocked(runner(watching), table), "it waits for somebody who is still deciding"
    return calling.result()


def test_a_claim_passes_over_what_somebody_is_deciding_about(postgres_server: PostgresServer) -> None:
    """P13: one who takes long to commit holds up nobody else."""
    place = PostgresPlace(postgres_server.url)
    spec = prepared(place, ["a", "b"])
    work = spec.claims["work"]
    with psycopg.connect(place.url) as slow, connect(place.url) as db, ThreadPoolExecutor(1) as pool:
        assert [one.key for one in bind(slow).claim(work)] == ["a"]
        claiming = pool.submit(db.claim, work)
        try:
            assert [one.key for one in beside_a_decision(place.url, spec.table, claiming)] == ["b"]
        finally:
            slow.rollback()


def test_a_row_that_is_being_finished_is_not_dead_lettered(postgres_server: PostgresServer) -> None:
    """P5: on its last attempt, long after its lease: who sets it aside neither waits for that nor overwrites it."""
    place = PostgresPlace(postgres_server.url)
    spec = prepared(place, [])
    work = spec.claims["work"]
    with beside(place) as ground:
        ground.put(spec, "a", "QUEUED", attempts=2)
    with psycopg.connect(place.url) as slow, connect(place.url) as db, ThreadPoolExecutor(1) as pool:
        (late,) = db.claim(work, now=NOON)
        assert bind(slow).move(spec.moves["finish"], late).won
        claiming = pool.submit(db.claim, work, now=after(1000))
        try:
            assert beside_a_decision(place.url, spec.table, claiming) == []
        finally:
            slow.commit()
    with beside(place) as ground:
        assert ground.get(spec, "a")["status"] == "DONE"


def test_an_old_leader_can_claim_nothing(place: Place) -> None:
    """P10: the guard of an epoch goes into a claim as into any other write."""
    spec = prepared(place, ["j"])
    lease = Lease("bot", 30, fresh_name("leases"))
    with beside(place) as ground:
        ground.lease_table(lease.table)
    work = spec.claims["work"]
    with connect(place.url) as db:
        old = db.acquire_lease(lease, "old", now=NOON)
        new = db.acquire_lease(lease, "new", now=after(31))
        assert isinstance(old, LeaseGranted)
        assert isinstance(new, LeaseGranted)
        assert db.claim(work, where=db.lease_guard(old)) == []
        assert isinstance(db.claim_one(work, "j", where=db.lease_guard(old)), Taken)
        assert [one.key for one in db.claim(work, where=db.lease_guard(new))] == ["j"]
