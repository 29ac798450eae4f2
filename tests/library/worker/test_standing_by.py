"""A worker that needs the leader (P11): without the lead nothing is begun, however sure a process is of itself."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from raceproof import Claim, Inbox, Leader, Lease, LeaseGranted, Worker, connect
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import subscribed
from raceproof.run import Role
from raceproof.testing import ValkeyServer
from raceproof.testing.contract.clock import after
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.jobs import jobs
from tests.fix_waiting import DEADLINE, until
from tests.library.worker.working import db, put, statuses, worker
from tests.promises.crash.actors import Actor, Outside, Stage
from tests.promises.race.beside import beside
from tests.promises.race.places import Place

EVENTS = 20


def a_lease(ground: Ground, seconds: float = 600) -> Lease:
    lease = Lease("bot", seconds, fresh_name("leases"))
    ground.lease_table(lease.table)
    return lease


async def test_nothing_is_begun_without_the_lead_and_everything_with_it(ground: Ground) -> None:
    """It is told at once that it leads, and does not wait for its next look."""
    job, lease = jobs(ground), a_lease(ground)
    keys = await put(ground, job, 5)
    other = await ground.db.acquire_lease(lease, "other")
    seen: list[str] = []
    asked: list[str] = []

    async def handle(claim: Claim[Any, Any]) -> None:
        seen.append(claim.key)

    async with Leader(db(ground), lease, by="me", retry=0.01) as leader:
        mine = worker(ground, job, handle, leader=leader, poll=600)
        running = asyncio.create_task(mine.run())
        with subscribed(lambda event: asked.append(event.operation)):
            for _ in range(20):
                await ground.db.read(job, keys[0])
        assert (seen, "claim" in asked) == ([], False)
        await ground.db.release_lease(other)
        await until(lambda: mine.finished == len(keys), "everything is finished")
        mine.stop()
        await running
    assert sorted(seen) == keys


async def test_a_leader_that_was_replaced_and_does_not_know_it_begins_nothing(ground: Ground) -> None:
    """The store looks at the lease in the claim itself; belief alone is not enough."""
    job, lease = jobs(ground), a_lease(ground)
    keys = await put(ground, job, 5)
    seen: list[str] = []

    async def handle(claim: Claim[Any, Any]) -> None:
        seen.append(claim.key)

    async with Leader(db(ground), lease, by="me") as leader:
        await leader.wait_for(Role.ACTIVE)
        assert isinstance(await ground.db.acquire_lease(lease, "other", now=after(10_000_000)), LeaseGranted)
        assert leader.active
        await worker(ground, job, handle, leader=leader).run(until_idle=True)
        assert seen == []
        assert statuses(ground, job, keys) == {"QUEUED": 5}
        await worker(ground, job, handle).run(until_idle=True)
    assert sorted(seen) == keys


async def test_what_runs_when_the_lead_is_lost_is_finished_by_its_claim(ground: Ground) -> None:
    """Nobody else can have begun it meanwhile; the rest is left to the next leader."""
    job, lease = jobs(ground), a_lease(ground)
    keys = await put(ground, job, 3)
    entered, go_on = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def handle(claim: Claim[Any, Any]) -> None:
        seen.append(claim.key)
        entered.set()
        await go_on.wait()

    leader = Leader(db(ground), lease, by="me")
    async with leader:
        mine = worker(ground, job, handle, leader=leader, parallel=1, max_batch=1, poll=0.01)
        running = asyncio.create_task(mine.run())
        await entered.wait()
        await leader.resign()
        go_on.set()
        await until(lambda: mine.finished == 1, "what ran is finished")
        for _ in range(20):
            await asyncio.sleep(0.001)
        mine.stop()
        await running
    assert seen == keys[:1]
    assert statuses(ground, job, keys) == {"DONE": 1, "QUEUED": 2}


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_what_was_not_begun_when_the_lead_is_lost_is_given_back_untried(ground: Ground, kind: str) -> None:
    """P11: however much is held. What waits for its turn goes back at once, the rest when what runs has ended."""
    job, lease = jobs(ground, claim={"lease": 3600}), a_lease(ground)
    keys = await put(ground, job, 8)
    go_on = threading.Event()
    begun: list[str] = []

    def plain(claim: Claim[Any, Any]) -> None:
        begun.append(claim.key)
        go_on.wait(DEADLINE)

    async def coroutine(claim: Claim[Any, Any]) -> None:
        begun.append(claim.key)
        await until(go_on.is_set, "it may go on")

    async with Leader(db(ground), lease, by="me") as leader:
        await leader.wait_for(Role.ACTIVE)
        mine = worker(ground, job, plain if kind == "plain" else coroutine, leader=leader, parallel=1, poll=600)
        mine._batch.size = 8
        running = asyncio.create_task(mine.run())
        await until(lambda: mine._running.items == 8 and bool(begun), "all are held, and one runs")
        await leader.resign()
        await until(lambda: statuses(ground, job, keys)["QUEUED"] > 4, "what waits is given back")
        go_on.set()
        await until(lambda: mine.finished == 1 and mine._held.all() == [], "nothing is held")
        mine.stop()
        await running
    assert (begun, statuses(ground, job, keys)) == (keys[:1], {"DONE": 1, "QUEUED": 7})
    assert {ground.get(job, key)["attempts"] for key in keys[1:]} == {"0"}


async def test_a_thread_begins_nothing_after_the_lead_is_lost(ground: Ground) -> None:
    """P11: neither the next item of its turn, nor the first of one that comes late."""
    job, lease = jobs(ground), a_lease(ground)
    keys = await put(ground, job, 8)
    loop = asyncio.get_running_loop()
    begun: list[str] = []

    def handle(claim: Claim[Any, Any]) -> None:
        begun.append(claim.key)
        asyncio.run_coroutine_threadsafe(leader.resign(), loop).result(DEADLINE)

    async with Leader(db(ground), lease, by="me") as leader:
        await leader.wait_for(Role.ACTIVE)
        mine = worker(ground, job, handle, leader=leader, poll=600)
        mine._batch.size = 8
        running = asyncio.create_task(mine.run())
        await until(lambda: statuses(ground, job, keys) == {"DONE": 1, "QUEUED": 7}, "nothing is held")
        mine.stop()
        await running
    busy = threading.Event()
    async with Leader(db(ground), lease, by="me") as leader:
        await leader.wait_for(Role.ACTIVE)
        mine = worker(ground, job, handle, leader=leader, poll=600)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(busy.wait, DEADLINE)
            await until(waiting.running, "the only thread is busy")
            mine._items._threads = threads  # type: ignore[attr-defined]
            running = asyncio.create_task(mine.run())
            await until(lambda: not threads._work_queue.empty(), "an item waits for the thread")
            await leader.resign()
            busy.set()
            mine.stop()
            await running
    assert (begun, statuses(ground, job, keys)) == (keys[:1], {"DONE": 1, "QUEUED": 7})


async def test_the_lease_must_be_where_the_rows_are(tmp_path: Path, valkey_server: ValkeyServer) -> None:
    """Another store cannot look at it when it writes."""
    inbox = Inbox()
    async with connect(f"sqlite:///{tmp_path / 'rows.db'}") as rows, connect(valkey_server.url) as leases:
        with pytest.raises(CallError, match="in another store"):
            Worker(rows, inbox.work, print, finish=inbox.finish, leader=Leader(leases, Lease("bot")))


class Part:
    """An instance: it takes events in, and works on them, with the lead or without."""

    def __init__(self, place: Place, lease: Lease, inbox: Inbox, guarded: bool, outside: Outside) -> None:
        self.place, self.lease, self.inbox = place, lease, inbox
        self.guarded, self.outside = guarded, outside

    def __call__(self, stage: Stage) -> None:
        asyncio.run(self._run(stage))

    async def _run(self, stage: Stage) -> None:
        async def handle(claim: Claim[Any, Any]) -> None:
            self.outside.send(event=claim.key[1], role=str(leader.role))

        async with (
            connect(self.place.url) as store,
            Leader(store, self.lease, by="instance", retry=0.05) as leader,
        ):
            working = Worker(
                store,
                self.inbox.work,
                handle,
                finish=self.inbox.finish,
                leader=leader if self.guarded else None,
                poll=0.02,
            )
            running = asyncio.create_task(working.run())
            for number in range(EVENTS):
                await store.receive(self.inbox, Arrival("s", str(number), b"{}"))
            stage.tell("received")
            await until(lambda: working.finished == EVENTS, "all events have been worked on")
            working.stop()
            await running


def passive_instance(place: Place, outside: Outside, guarded: bool) -> tuple[Part, Lease, Inbox]:
    lease, inbox = Lease("bot", 600, fresh_name("leases")), Inbox(fresh_name("inbox"))
    with beside(place) as ground:
        ground.lease_table(lease.table)
        ground.inbox_table(inbox)
    return Part(place, lease, inbox, guarded, outside), lease, inbox


def test_a_passive_instance_stores_everything_and_runs_nothing(place: Place, outside: Outside) -> None:
    """P11: a process of its own; when the other has stepped down, it runs what it has stored, each once."""
    part, lease, inbox = passive_instance(place, outside, guarded=True)
    with connect(place.url) as store:
        other = store.acquire_lease(lease, "other")
        assert isinstance(other, LeaseGranted)
    with Actor(part) as instance:
        instance.until("received")
        with connect(place.url) as store:
            counts = {str(status): count for status, count, *_ in store.inbox_counts(inbox)}
            assert sum(counts.values()) == EVENTS
            assert outside.effects == []
            store.release_lease(other)
        instance.until("end")
    assert sorted(int(event) for event in outside.names("event")) == list(range(EVENTS))
    assert set(outside.names("role")) == {"ACTIVE"}


def test_without_the_guard_a_passive_instance_runs_what_is_not_its_own(place: Place, outside: Outside) -> None:
    """The control: the worker does not ask who leads."""
    part, lease, _ = passive_instance(place, outside, guarded=False)
    with connect(place.url) as store:
        store.acquire_lease(lease, "other")
    with Actor(part) as instance:
        instance.until("end")
    assert set(outside.names("role")) == {"PASSIVE"}
