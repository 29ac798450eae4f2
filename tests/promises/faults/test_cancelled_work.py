"""Claims, turns, attempts, events and leases, each cancelled at every point of every call (P14; P3, P5, P7–P10).

Nobody knows how a cancelled call has ended. Whatever it was, somebody else finds the row in a state that is one of the two,
and everything goes on from there after the lease at the latest.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from raceproof import AsyncStore, Delivery, LeaseGranted, SendPermit, Started
from raceproof.inbox import Arrival
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.inbox import an_inbox
from raceproof.testing.contract.jobs import jobs, put
from raceproof.testing.contract.leases import a_lease
from raceproof.testing.contract.pictures import pictures
from tests.promises.contract.grounds import asked_ground
from tests.promises.faults.fix_cancel import at_last, cancelled_at
from tests.promises.faults.test_cancellation import KINDS

ROWS = 3


@pytest.fixture(params=KINDS, ids=lambda kind: kind.replace(" ", "-"))
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """An async store of each kind."""
    async with asked_ground(request, tmp_path) as found:
        yield found


def store_of(ground: Ground) -> AsyncStore:
    assert isinstance(ground.db.store, AsyncStore)
    return ground.db.store


class Points:
    """One suspension after the other, until a call has been cancelled at each that it has."""

    def __init__(self) -> None:
        self.number = 0
        self.left = True

    def __iter__(self) -> "Points":
        return self

    def __next__(self) -> int:
        if not self.left:
            assert self.number > 1, "a call that is never suspended cannot be cancelled"
            raise StopIteration
        self.number += 1
        return self.number

    async def cancel(self, call: Coroutine[Any, Any, Any]) -> None:
        """Cancel it at this point; the store may come to its end with it later."""
        self.left = await cancelled_at(call, self.number)


async def test_a_cancelled_claim_holds_its_rows_for_a_lease_at_most(ground: Ground) -> None:
    """Each is held by the one who went away or by the next one, never by both; after the lease, by anybody."""
    job, points = jobs(ground), Points()
    work, finish = job.claims["work"], job.moves["finish"]
    for point in points:
        keys = [f"{point}-{n}" for n in range(ROWS)]
        await put(ground, job, *keys)
        await points.cancel(store_of(ground).claim(work, ROWS, by="gone", now=NOON))
        soon = await ground.db.claim(work, 10, by="soon", now=after(1))
        late: list[Any] = []

        async def all_are_late(keys: list[str] = keys, late: list[Any] = late) -> None:
            late += await ground.db.claim(work, 10, by="late", now=after(31.5))
            assert {one.key for one in late} == set(keys)

        for one in soon:
            row = ground.get(job, one.key)
            assert (row["status"], row["claimed_by"], row["attempts"]) == ("RUNNING", "soon", "1")
        await at_last(all_are_late)
        assert [answer.outcome for answer in await ground.db.renew(soon)] == ["lost"] * len(soon)
        assert [answer.outcome for answer in await ground.db.move_many(finish, late)] == ["moved"] * ROWS


@pytest.mark.parametrize("how", ["finish", "finish each", "renew", "release", "fail"])
async def test_a_cancelled_end_is_whole_or_nothing(ground: Ground, how: str) -> None:
    """A claim that is ended, renewed or given back: each row is one or the other, and its holder can ask again."""
    job, points = jobs(ground, history=True), Points()
    work, finish = job.claims["work"], job.moves["finish"]
    db = store_of(ground)
    calls: dict[str, Any] = {
        "finish": lambda mine: db.move_many(finish, mine, now=after(1)),
        "finish each": lambda mine: db.move_many(finish, {one: {"result": one.key} for one in mine}, now=after(1)),
        "renew": lambda mine: db.renew(mine, now=after(1)),
        "release": lambda mine: db.release(mine, now=after(1)),
        "fail": lambda mine: db.fail(mine, delay=0.0, now=after(1)),
    }
    ended = "DONE" if how.startswith("finish") else "RUNNING" if how == "renew" else "QUEUED"
    for point in points:
        keys = [f"{point}-{n}" for n in range(ROWS)]
        await put(ground, job, *keys)
        claims = await ground.db.claim(work, ROWS, by="gone", now=NOON)

        async def all_are_whole(keys: list[str] = keys) -> None:
            for key in keys:
                row = ground.get(job, key)
                moves = [one.move for one in await ground.db.history(job, key)]
                assert row["status"] in ("RUNNING", ended)
                assert len(moves) == (1 if row["status"] == "RUNNING" else 2)
                assert str(len(moves)) == row["rev"]

        await points.cancel(calls[how](claims))
        await at_last(all_are_whole)
        again = await calls[how](claims)
        assert all(answer.reached or answer.outcome == "lost" for answer in again)
        await at_last(all_are_whole)
        assert {ground.get(job, key)["status"] for key in keys} == {ended}
        left = await ground.db.claim(work, 10, by="late", now=after(60))
        assert {one.key for one in left} == (set() if ended == "DONE" else set(keys))
        await ground.db.move_many(finish, left)


@pytest.mark.parametrize("told", [False, True], ids=["two timestamps", "all columns"])
async def test_what_is_held_is_sent_once_wherever_its_sender_is_cancelled(ground: Ground, told: bool) -> None:
    """Before, in and after the send; the one who comes after the stale time learns of the doubt and does not send."""
    points = Points()
    for _ in points:
        delivery, spec = pictures(ground, told, policy="hold")
        sent: list[str] = []
        await points.cancel(send(ground, delivery, sent, NOON))
        for seconds in (1, 301, 602, 5000):
            await send(ground, delivery, sent, after(seconds))
        assert len(sent) <= 2, "sent by one, who has ended or not"
        if not points.left:
            assert ground.get(spec, "a")["delivered_at"] is not None


async def send(ground: Ground, delivery: Delivery, sent: list[str], now: datetime, renew: bool = False) -> None:
    """A send that takes a while, in which the turn may be begun anew; what is sent for sure is in `sent` twice."""
    db = store_of(ground)
    async with db.deliver_once(delivery, "a", now=now) as permit:
        if isinstance(permit, SendPermit):
            sent.append(permit.idempotency_key)
            await db.begin_delivery(delivery, "nobody")
            if renew:
                with suppress(asyncio.CancelledError):
                    await db.sending(permit, now=now)
            sent.append(permit.idempotency_key)


@pytest.mark.parametrize("renew", [False, True], ids=["short", "renewed"])
async def test_what_was_sent_for_sure_is_marked_wherever_its_sender_is_cancelled(ground: Ground, renew: bool) -> None:
    """In the mark itself, or in a renewal before it: the one who knows writes it down, so nobody sends again."""
    points = Points()
    for _ in points:
        delivery, spec = pictures(ground, True)
        sent: list[str] = []
        await points.cancel(send(ground, delivery, sent, NOON, renew))
        if len(sent) == 2:
            assert ground.get(spec, "a")["state"] == "delivered"


async def test_after_a_cancelled_start_one_attempt_is_current(ground: Ground) -> None:
    """The old one, or the new one that has ended it; never both, never none."""
    attempts, login = logins(ground, history=True)
    points = Points()
    for point in points:
        owner, old, new = f"ann-{point}", f"old-{point}", f"new-{point}"
        await ground.db.start_attempt(attempts, owner, old, now=NOON)

        async def one_is_current(owner: str = owner, old: str = old, new: str = new) -> None:
            current = (await ground.db.current_attempt(attempts, owner, now=after(2)))["login_id"]
            assert (current, ground.get(login, old)["status"]) in ((old, "pending"), (new, "superseded"))

        await points.cancel(store_of(ground).start_attempt(attempts, owner, new, now=after(1)))
        await at_last(one_is_current)
        assert isinstance(await ground.db.start_attempt(attempts, owner, new, now=after(3)), Started)
        assert ground.get(login, old)["status"] == "superseded"
        assert (await ground.db.current_attempt(attempts, owner, now=after(4)))["login_id"] == new


@pytest.mark.parametrize("how", ["one", "many", "gathered"])
async def test_a_cancelled_event_can_be_brought_again_and_is_worked_on_once(ground: Ground, how: str) -> None:
    """It was kept or it was not: who brings it again need not know."""
    inbox, points = an_inbox(ground), Points()
    db = store_of(ground)
    receive = db.receiver(inbox)

    async def gathered(arrivals: list[Arrival]) -> list[Any]:
        return await asyncio.gather(*map(receive, arrivals))

    calls: dict[str, Any] = {
        "one": lambda arrivals: db.receive(inbox, arrivals[0]),
        "many": lambda arrivals: db.receive_many(inbox, arrivals),
        "gathered": gathered,
    }
    for point in points:
        arrivals = [Arrival("t", f"{point}-{n}", b"{}", {}, "ann") for n in range(ROWS)]
        await points.cancel(calls[how](arrivals))
        again = calls["gathered" if how == "gathered" else "many"]
        assert all(one.reached for one in await again(arrivals))
        worked = []
        for _ in range(ROWS):
            (mine,) = await ground.db.claim(inbox.work, 10)
            assert (await ground.db.move(inbox.finish, mine)).won
            worked.append(mine.key[1])
        assert sorted(worked) == [one.event_id for one in arrivals]
        assert await ground.db.claim(inbox.work, 10) == []


@pytest.mark.parametrize("how", ["lead", "renew_lease", "release_lease"])
async def test_a_cancelled_question_about_a_lease_leaves_one_leader(ground: Ground, how: str) -> None:
    """Whatever came of it, the next epoch is greater, and the old one is refused."""
    points = Points()
    db = store_of(ground)
    for _ in points:
        lease = a_lease(ground)
        ann: Any = None
        if how == "lead":
            await points.cancel(db.acquire_lease(lease, "ann", now=NOON))
        else:
            ann = (await db.acquire_lease(lease, "ann", now=NOON)).must()
            await points.cancel(getattr(db, how)(ann, now=after(1)))
        bob = await db.acquire_lease(lease, "bob", now=after(2))
        if not isinstance(bob, LeaseGranted):
            assert bob.outcome == "held by another"
            bob = await db.acquire_lease(lease, "bob", now=after(32))
        assert isinstance(bob, LeaseGranted)
        if ann is not None:
            assert bob.epoch > ann.epoch
            assert (await db.renew_lease(ann, now=after(33))).outcome == "held by another"
