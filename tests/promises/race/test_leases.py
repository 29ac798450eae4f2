"""Leases under real races (P10): eight processes want to lead, and old leaders go on writing."""

import asyncio
from typing import Any

import psycopg

from raceproof import Lease, LeaseGranted, LeaseHeldByOther, Lifecycle, Moved, bind, connect
from raceproof.declare import Spec
from raceproof.testing import PostgresServer
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import fresh_name
from tests.fix_beside import postgres_beside
from tests.fix_waiting import blocked, until
from tests.promises.race.beside import beside, write
from tests.promises.race.places import Place, PostgresPlace
from tests.promises.race.processes import Barrier, race

WORKERS = 8


def prepared(place: Place) -> tuple[Lease, Spec[str]]:
    """A lease, and a lamp that only a leader may switch; it tells in which epoch it was switched."""
    lamp = Lifecycle.from_dict(
        {
            "name": "Lamp",
            "table": fresh_name("lamps"),
            "statuses": ["on", "off"],
            "revision": "rev",
            "moves": {
                "switch_on": {"from": ["off"], "to": "on", "sets": ["epoch"]},
                "switch_off": {"from": ["on"], "to": "off", "sets": ["epoch"]},
            },
        }
    )
    lease = Lease("bot", 30, fresh_name("leases"))
    with beside(place) as ground:
        ground.lease_table(lease.table)
        ground.table(lamp)
        ground.put(lamp, "lamp", "off")
    return lease, lamp


def test_in_each_term_one_leads_and_no_epoch_is_used_twice(place: Place) -> None:
    """Whenever the lease is over, all eight ask at once."""
    lease, _ = prepared(place)
    terms = 20

    def job(number: int, barrier: Barrier) -> list[tuple[bool, int]]:
        told = []
        with connect(place.url) as db:
            for term in range(terms):
                barrier.wait()
                answer = db.acquire_lease(lease, f"process {number}", now=after(term * 30.5))
                assert isinstance(answer, LeaseGranted | LeaseHeldByOther)
                told.append((answer.won, answer.epoch))
        return told

    epochs = []
    for answers in zip(*race(job, WORKERS), strict=True):
        assert sum(won for won, _ in answers) == 1
        (epoch,) = {epoch for _, epoch in answers}
        epochs.append(epoch)
    assert epochs == sorted(set(epochs))


def test_a_renewal_and_a_takeover_never_both_succeed(place: Place) -> None:
    """At the end of the lease the holder goes on, or one of the seven others begins in a new epoch."""
    lease, _ = prepared(place)
    terms = 20

    def job(number: int, barrier: Barrier) -> list[tuple[bool, int]]:
        told = []
        with connect(place.url) as db:
            for term in range(terms):
                own = Lease(f"bot {term}", 30, lease.table)
                if number == 0:
                    held = db.acquire_lease(own, "holder", now=NOON)
                    assert isinstance(held, LeaseGranted)
                barrier.wait()
                if number == 0:
                    assert isinstance(held, LeaseGranted)
                    answer = db.renew_lease(held, now=after(30.1))
                else:
                    answer = db.acquire_lease(own, f"process {number}", now=after(30.1))
                assert isinstance(answer, LeaseGranted | LeaseHeldByOther)
                told.append((answer.won, answer.epoch))
        return told

    for answers in zip(*race(job, WORKERS), strict=True):
        assert sum(won for won, _ in answers) == 1
        assert len({epoch for _, epoch in answers}) == 1


def epochs_written(place: Place, guarded: bool) -> list[int]:
    """Each leader in turn writes as fast as it can, also after the next one has taken over; the epochs in the order of the
    writes that were accepted."""
    lease, lamp = prepared(place)

    def job(number: int, barrier: Barrier) -> list[tuple[int, int]]:
        accepted = []
        with connect(place.url) as db:
            for permit in range(WORKERS):
                barrier.wait()
                if permit == number:
                    mine = db.acquire_lease(lease, f"process {number}", now=after(permit * 31))
                    assert isinstance(mine, LeaseGranted)
                if permit in (number, number + 1):
                    # in its own term, and at the beginning of its successor's, which it knows nothing of
                    assert isinstance(mine, LeaseGranted)
                    where: Any = [db.lease_guard(mine)] if guarded else []
                    for attempt in range(12):
                        move = lamp.moves["switch_off" if attempt % 2 else "switch_on"]
                        told = db.move(move, "lamp", set={"epoch": str(mine.epoch)}, where=where, returning=["rev"])
                        if isinstance(told, Moved):
                            accepted.append((int(told.row["rev"]), mine.epoch))
        return accepted

    return [epoch for _, epoch in sorted(one for found in race(job, WORKERS) for one in found)]


def test_writes_of_an_older_epoch_are_never_accepted_after_those_of_a_newer_one(place: Place) -> None:
    """P10: every write carries the epoch, and the store compares it in the same write."""
    epochs = epochs_written(place, guarded=True)
    assert len(set(epochs)) == WORKERS
    assert epochs == sorted(epochs)


def test_without_the_epoch_an_old_leader_writes_into_the_term_of_the_next(place: Place) -> None:
    """The control: a local flag says that we lead."""
    lease, lamp = prepared(place)

    def job(number: int, barrier: Barrier) -> int:
        with connect(place.url) as db, beside(place) as ground:
            for permit in range(WORKERS):
                if permit == number:
                    mine = db.acquire_lease(lease, f"process {number}", now=after(permit * 31))
                    leads = mine.won
                    write(ground, lamp, "lamp", epoch=str(mine.epoch))  # type: ignore[union-attr]
                barrier.wait()
            if number == 0 and leads:
                write(ground, lamp, "lamp", epoch=str(mine.epoch))  # type: ignore[union-attr]
            barrier.wait()
            return int(ground.get(lamp, "lamp")["epoch"] or 0) - mine.epoch  # type: ignore[union-attr]

    assert min(race(job, WORKERS)) < 0


def test_the_same_holder_can_do_nothing_in_an_older_epoch_of_its_own(place: Place) -> None:
    """Its name alone proves nothing: it was away, and leads anew."""
    lease, lamp = prepared(place)
    with connect(place.url) as db:
        old = db.acquire_lease(lease, "me", now=NOON)
        new = db.acquire_lease(lease, "me", now=after(31))
        assert isinstance(old, LeaseGranted)
        assert isinstance(new, LeaseGranted)
        for answer in (db.renew_lease(old, now=after(32)), db.release_lease(old, now=after(32))):
            assert isinstance(answer, LeaseHeldByOther)
        late = db.move(lamp.moves["switch_on"], "lamp", where=db.lease_guard(old))
        assert late.outcome == "refused"
        assert db.move(lamp.moves["switch_on"], "lamp", where=db.lease_guard(new)).won
        assert isinstance(db.renew_lease(new, now=after(33)), LeaseGranted)


async def test_nobody_takes_over_between_a_guarded_write_and_its_commit(
    postgres_server: PostgresServer,
) -> None:
    """P10: the write that names the epoch holds the lease row until it is committed, or a newer epoch would precede it."""
    place = PostgresPlace(postgres_server.url)
    lease, lamp = prepared(place)
    with connect(place.url) as db, psycopg.connect(place.url) as own, postgres_beside(place.url) as ground:
        old = db.acquire_lease(lease, "old", now=NOON)
        assert isinstance(old, LeaseGranted)
        assert bind(own).move(lamp.moves["switch_on"], "lamp", where=db.lease_guard(old)).won
        taking = asyncio.ensure_future(asyncio.to_thread(db.acquire_lease, lease, "new", after(31)))
        await until(lambda: taking.done() or blocked(ground.run, lease.table) > 0, "somebody takes over")
        assert not taking.done()
        own.commit()
        new = await taking
        assert isinstance(new, LeaseGranted)
        assert new.epoch > old.epoch
