"""Leases and leaders: one holder of the current epoch, and no write with an older one."""

import asyncio
import time
from enum import StrEnum
from typing import Any

from raceproof import Leader, Lease, LeaseGranted, Lifecycle, Worker, claimable, move
from raceproof.testing.explorer import Connection, World
from raceproof.testing.explorer.promises import keeps_claims, keeps_lease, keeps_moves, outcomes
from tests.promises.packs.pack import Pack

LEASE = Lease("bot", seconds=3.0)


class Status(StrEnum):
    NEW = "NEW"
    TAKEN = "TAKEN"
    DONE = "DONE"


class Task(Lifecycle[Status], table="tasks"):
    """A row that only a leader moves."""

    take = move(Status.NEW, to=Status.TAKEN)
    finish = move(Status.TAKEN, to=Status.DONE)
    work = claimable(take, lease=10.0)


def _stage(world: World) -> None:
    world.table(LEASE)
    world.table(Task)
    world.row(Task, "t")
    keeps_moves(world, Task)
    keeps_lease(world, LEASE, Task.take, Task.finish, Task.work)


def guarded_writes(world: World) -> None:
    """A node writes while it leads, and steps down; a rival leads when it can."""
    _stage(world)

    @world.process
    async def node(db: Connection) -> None:
        leading = await db.acquire_lease(LEASE)
        if isinstance(leading, LeaseGranted):
            await db.move(Task.take, "t", where=db.lease_guard(leading))
            await db.release_lease(leading)

    @world.process
    async def rival(db: Connection) -> None:
        await db.acquire_lease(LEASE)

    world.sometimes("somebody else leads", lambda moment: outcomes(moment, LEASE, "held by another"))
    world.sometimes("an old leader is refused", lambda moment: outcomes(moment, Task.take, "refused"))


def kept_up(world: World) -> None:
    """A leader that keeps its lease up in good time, or too late, beside one of the same name."""
    _stage(world)

    @world.process
    async def keeper(db: Connection) -> None:
        leading = await db.acquire_lease(LEASE, "node")
        if isinstance(leading, LeaseGranted):
            await asyncio.sleep(2)
            await db.renew_lease(leading)

    @world.process
    async def namesake(db: Connection) -> None:
        await db.acquire_lease(LEASE, "node")

    world.sometimes("a lease is kept up", lambda moment: outcomes(moment, LEASE, "granted"))
    world.sometimes("a lease is lost", lambda moment: outcomes(moment, LEASE, "held by another"))


def guarded_claims(world: World) -> None:
    """A passive node accepts work and begins none: claims carry the guard of the leader."""
    _stage(world)
    keeps_claims(world, Task.work)

    @world.before
    async def offer(db: Connection) -> None:
        await db.offer(Task.work, ["t"])

    @world.process
    async def rival(db: Connection) -> None:
        await db.acquire_lease(LEASE)

    @world.process
    async def node(db: Connection) -> None:
        leading = await db.acquire_lease(LEASE)
        if isinstance(leading, LeaseGranted):
            await db.claim(Task.work, where=db.lease_guard(leading))

    world.sometimes("a leader claims", lambda moment: outcomes(moment, Task.work, "claimed"))
    world.sometimes("both have led", _both_lead)


def standing_by(world: World) -> None:
    """A node with a worker that needs the leader; a rival leads when it can. Only the leader begins an item."""
    world.table(LEASE)
    world.table(Task)
    world.row(Task, "t")
    keeps_moves(world, Task)
    keeps_lease(world, LEASE, Task.work)

    @world.before
    async def offer(db: Connection) -> None:
        await db.offer(Task.work, ["t"])

    @world.process
    async def node(db: Connection) -> None:
        async with Leader(db, LEASE, retry=LEASE.seconds) as leader:
            worker = Worker(db, Task.work, _nothing, finish=Task.finish, max_batch=1, parallel=1, leader=leader)
            running = asyncio.create_task(worker.run())
            await asyncio.sleep(0.5)
            worker.stop()
            await running

    @world.process
    async def rival(db: Connection) -> None:
        await db.acquire_lease(LEASE)

    world.sometimes("a leader begins it", lambda moment: outcomes(moment, Task.work, "claimed"))
    world.sometimes("somebody else leads", lambda moment: outcomes(moment, LEASE, "held by another"))
    world.sometimes("both have led", _both_lead)


async def _nothing(_: Any) -> None:
    return None


def _both_lead(moment: Any) -> bool:
    return len({title for title, event in moment.told if isinstance(event.answer, LeaseGranted)}) > 1


def leader_and_rival(world: World) -> None:
    """A `Leader` keeps its lease up in the background and says when it may be believed; a rival leads when it can."""
    _stage(world)

    @world.process
    async def node(db: Connection) -> None:
        async with Leader(db, LEASE, retry=LEASE.seconds) as leader:
            await asyncio.sleep(1.5)
            if may_believe(leader):
                await db.move(Task.take, "t", where=leader.guard)

    @world.process
    async def rival(db: Connection) -> None:
        await db.acquire_lease(LEASE)

    world.sometimes("a leader writes", lambda moment: outcomes(moment, Task.take, "moved"))
    world.sometimes("both have led", _both_lead)


def may_believe(leader: Leader) -> bool:
    """Whether a node may act as the leader; if so, its last answer must still hold, with a margin."""
    ends = leader._machine.deadline
    assert not leader.active or (ends is not None and time.monotonic() < ends), "P10: belief outlived the lease"
    return leader.active


def replaced_leader(world: World) -> None:
    """A lease is taken away by hand: its leader believes no more when it hears of that."""
    _stage(world)

    @world.process
    async def node(db: Connection) -> None:
        heard: list[str] = []
        ask = db.renew_lease

        async def renew_lease(held: LeaseGranted, now: Any = None, **options: Any) -> Any:
            answer = await ask(held, now, **options)
            heard.append(answer.outcome)
            return answer

        db.renew_lease = renew_lease  # type: ignore[method-assign]
        async with Leader(db, LEASE, retry=LEASE.seconds) as leader:
            await asyncio.sleep(1.5)
            assert heard[-1:] != ["held by another"] or not may_believe(leader), (
                "P10: it was told that another one leads"
            )

    @world.process
    async def operator(db: Connection) -> None:
        found = await db.lease_holder(LEASE)
        if found.by is not None:
            await db.release_lease(LeaseGranted(LEASE, found.by, found.epoch, 0.0))
            await db.acquire_lease(LEASE, "operator")

    world.sometimes("a leader is replaced", lambda moment: outcomes(moment, LEASE, "held by another", "lease"))


PACKS = [
    Pack("guarded-writes", ("P1", "P10", "P14"), guarded_writes),
    Pack("kept-up", ("P10",), kept_up),
    Pack("guarded-claims", ("P3", "P10"), guarded_claims),
    Pack("leader-and-rival", ("P10", "P14"), leader_and_rival),
    Pack("replaced-leader", ("P10",), replaced_leader),
    Pack("standing-by", ("P10", "P11"), standing_by),
]
