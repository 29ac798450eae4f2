"""Leaders in processes of their own: takeover after a crash, a long sleep, and a farewell (P10, P13)."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from raceproof import Leader, Lease, connect
from raceproof.declare import Spec
from raceproof.kernel.errors import CallError
from raceproof.run import NotLeading, Role
from raceproof.run.leader.advisory import lock_ids
from raceproof.testing import PostgresServer, valkey
from tests.fix_waiting import DEADLINE, until
from tests.library.leader.fix_leading import LONG, SHORT, prepared
from tests.library.leader.fix_middle_box import MiddleBox
from tests.promises.crash.actors import Actor, Stage
from tests.promises.race.places import Place, PostgresPlace, RedisPlace, SqlitePlace
from tests.standstill import stand_still


class Part:
    """What a leading process does: it switches the lamp, waits, and switches it back, as if it still led."""

    def __init__(self, place: Place, lease: Lease, lamp: Spec[str], name: str, advisory: bool = False) -> None:
        self.place, self.lease, self.lamp, self.name = place, lease, lamp, name
        self.advisory = (lambda: asyncpg.connect(place.url)) if advisory else None

    def __call__(self, stage: Stage) -> None:
        asyncio.run(self._run(stage))

    async def _run(self, stage: Stage) -> None:
        async with connect(self.place.url) as db:

            async def farewell(leader: Leader) -> None:
                stage.tell("passive", (await db.lease_holder(self.lease)).by)

            leader = Leader(
                db, self.lease, by=self.name, retry=0.02, advisory=self.advisory,
                on_active=lambda leader: stage.tell("active", leader.epoch), on_passive=farewell,
            )  # fmt: skip
            ended = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
            async with leader:
                await leader.wait_for(Role.ACTIVE)
                guard, epoch = leader.guard, leader.epoch
                for name in ("switch_on", "switch_off"):
                    answer = await db.move(
                        self.lamp.moves[name], "lamp", where=guard, set={"epoch": str(epoch)}, by=self.name
                    )
                    stage.tell("wrote", answer.outcome, leader.active)
                    go = asyncio.ensure_future(asyncio.to_thread(stage.reach, "wait"))
                    end = asyncio.ensure_future(ended.wait())
                    await asyncio.wait([go, end], return_when=asyncio.FIRST_COMPLETED)
                    if ended.is_set():
                        break
            stage.tell("stepped down")


async def epochs_in_order(place: Place, lamp: Spec[str]) -> list[str]:
    """Who wrote, in the order of what was accepted."""
    async with connect(place.url) as db:
        return [str(entry.actor) for entry in reversed(await db.history(lamp, "lamp"))]


async def test_another_one_leads_in_a_newer_epoch_after_kill_9(place: Place) -> None:
    """When the lease is over; a crash needs nobody to notice it."""
    lease, lamp = prepared(place, SHORT)
    with Actor(Part(place, lease, lamp, "first")) as first:
        (epoch,) = first.until("active")
        first.until("wait")
        with Actor(Part(place, lease, lamp, "second")) as second:
            first.kill()
            (newer,) = second.until("active")
            assert newer > epoch


async def test_a_leader_that_slept_past_its_lease_knows_it_and_can_write_nothing(place: Place) -> None:
    """SIGSTOP: its belief has ended by its own clock, and what it still writes in its old epoch is refused."""
    lease, lamp = prepared(place, SHORT)
    with Actor(Part(place, lease, lamp, "first")) as first:
        (epoch,) = first.until("active")
        assert first.until("wrote")[0] == "moved"
        first.until("wait")
        stand_still(first.pid, place.url)
        with Actor(Part(place, lease, lamp, "second")) as second:
            (newer,) = second.until("active")
            assert newer > epoch
            # the lamp is on, so the second one's switching on finds it so; its switching off is accepted
            assert second.until("wrote")[0] == "already"
            second.until("wait")
            first.go()
            first.resume()
            assert first.until("wrote") == ("refused", False)
            second.go()
            assert second.until("wrote")[0] == "moved"
    assert await epochs_in_order(place, lamp) == ["first", "second"]


async def test_on_sigterm_a_leader_says_farewell_and_the_next_one_need_not_wait(place: Place) -> None:
    """Its callback has run while it still held the lease; then it gave it up, long before its end."""
    lease, lamp = prepared(place, LONG)
    with Actor(Part(place, lease, lamp, "first")) as first:
        (epoch,) = first.until("active")
        first.until("wait")
        with Actor(Part(place, lease, lamp, "second")) as second:
            first.terminate()
            assert first.until("passive") == ("first",)
            first.until("stepped down")
            (newer,) = second.until("active")
            assert newer > epoch
            first.go()  # the thread that waits for the play


async def test_with_a_session_lock_takeover_after_kill_9_is_immediate(
    postgres_server: PostgresServer,
) -> None:
    """The server lets go of a dead session's lock; the lease of ten minutes is not waited for."""
    place = PostgresPlace(postgres_server.url)
    lease, lamp = prepared(place, LONG)
    with Actor(Part(place, lease, lamp, "first", advisory=True)) as first:
        (epoch,) = first.until("active")
        first.until("wait")
        with Actor(Part(place, lease, lamp, "second", advisory=True)) as second:
            first.kill()
            (newer,) = second.until("active")
            assert newer > epoch


async def test_a_leader_whose_session_lock_was_lost_is_replaced_and_refused(
    postgres_server: PostgresServer,
) -> None:
    """Its connection was cut without its hearing of it, the process lives: two may believe for a moment, one can write."""
    place = PostgresPlace(postgres_server.url)
    lease, lamp = prepared(place, LONG)
    async with (
        connect(place.url) as db,
        connect(place.url) as other_db,
        MiddleBox(place.url).opened() as box,
        Leader(db, lease, by="first", advisory=lambda: asyncpg.connect(box.url), retry=0.02) as first,
    ):
        await first.wait_for(Role.ACTIVE)
        guard, epoch = first.guard, first.epoch
        other = Leader(other_db, lease, by="second", advisory=lambda: asyncpg.connect(place.url), retry=0.02)
        async with other:
            box.forget()
            await other.wait_for(Role.ACTIVE)
            assert other.epoch > epoch
            assert first.active  # nobody has told it yet
            late = await db.move(lamp.moves["switch_on"], "lamp", where=guard)
            assert late.outcome == "refused"
            assert (await other_db.move(lamp.moves["switch_on"], "lamp", where=other.guard)).won
        box.hang_up()


async def test_who_has_lost_its_session_lock_unheard_does_not_take_the_lease_back(
    postgres_server: PostgresServer,
) -> None:
    """It believed that it had the lock once and for all: so the two took the lease from each other without end."""
    place = PostgresPlace(postgres_server.url)
    lease, _ = prepared(place, 5 * SHORT)
    asked: list[str] = []
    async with connect(place.url) as db, connect(place.url) as other_db, MiddleBox(place.url).opened() as box:
        first = Leader(db, lease, by="first", advisory=lambda: asyncpg.connect(box.url), retry=0.02)
        other = Leader(other_db, lease, by="second", advisory=lambda: asyncpg.connect(place.url), retry=0.02)
        lead = db.acquire_lease

        async def told(*given: Any, **options: Any) -> Any:
            answer = await lead(*given, **options)
            asked.append(answer.outcome)
            return answer

        async with first:
            await first.wait_for(Role.ACTIVE)
            async with other:
                box.forget()
                await other.wait_for(Role.ACTIVE)
                epoch = other.epoch
                await first.wait_for(Role.PASSIVE)
                db.acquire_lease = told  # type: ignore[method-assign]
                await until(lambda: len(asked) >= 10, "the first one has asked again and again")
                assert set(asked) == {"held by another"}
                assert (other.epoch, (await db.lease_holder(lease)).by) == (epoch, "second")


LOCK_HOLDERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND granted"


async def test_a_leader_that_hears_of_the_loss_of_its_lock_gets_it_again(
    postgres_server: PostgresServer,
) -> None:
    """An administrator ends its session: it goes on leading in its epoch, on a new one, though its lease is long."""
    place = PostgresPlace(postgres_server.url)
    lease, _ = prepared(place, LONG)
    ids = [one & 0xFFFFFFFF for one in lock_ids(lease)]
    async with connect(place.url) as db:
        beside = await asyncpg.connect(place.url)
        async with Leader(db, lease, advisory=lambda: asyncpg.connect(place.url), retry=0.02) as leader:
            await leader.wait_for(Role.ACTIVE)
            epoch = leader.epoch
            pid = await beside.fetchval(LOCK_HOLDERS, *ids)
            await beside.fetchval("SELECT pg_terminate_backend($1)", pid)
            async with asyncio.timeout(DEADLINE):
                while await beside.fetchval(LOCK_HOLDERS, *ids) in (pid, None):
                    pass
            assert (leader.active, leader.epoch) == (True, epoch)
        assert await beside.fetchval(LOCK_HOLDERS, *ids) is None
        await beside.close()


@pytest.mark.parametrize("after", ["nothing more", "a rest"])
async def test_a_callback_may_step_down(place: Place, after: str) -> None:
    """It cannot do its work: the lease is given up at once, both callbacks have run, and no task is left."""
    lease, _ = prepared(place, LONG)
    calls: list[str] = []

    async def refuse(leader: Leader) -> None:
        calls.append("active")
        await leader.resign()
        if after == "a rest":
            await asyncio.sleep(0)
        calls.append("refused")

    async with connect(place.url) as db:
        before = asyncio.all_tasks()
        leader = Leader(db, lease, on_active=refuse, on_passive=lambda _: calls.append("passive"))
        async with leader:
            async with asyncio.timeout(DEADLINE):
                await until(lambda: "refused" in calls, "the callback is through")
                await leader.wait_for(Role.PASSIVE)
            assert (await db.lease_holder(lease)).by is None
        assert calls == ["active", "passive", "refused"]
        assert (await db.lease_holder(lease)).by is None
        assert not leader.active
        assert asyncio.all_tasks() <= before


async def test_stepping_down_that_was_cancelled_is_done_at_the_end(place: Place) -> None:
    """The callback waits for a task of its own, which ends with the callback: the lease is given up all the same."""
    lease, _ = prepared(place, LONG)
    began = asyncio.Event()

    async def refuse(leader: Leader) -> None:
        began.set()
        await asyncio.create_task(leader.resign())

    async with connect(place.url) as db:
        async with Leader(db, lease, on_active=refuse) as leader:
            await began.wait()
        assert (await db.lease_holder(lease)).by is None
        assert not leader.active


@pytest.mark.parametrize(
    "options", [{"margin": 3}, {"margin": 5.0}, {"margin": -1}, {"retry": 0}, {"retry": -1}], ids=str
)
async def test_times_that_cannot_work_are_told_at_once(place: Place, options: dict[str, float]) -> None:
    """It would hold the lease and never be ACTIVE, or ask without a pause."""
    async with connect(place.url) as db:
        with pytest.raises(CallError, match=f"{next(iter(options))}="):
            Leader(db, Lease("bot", seconds=3), **options)  # type: ignore[arg-type]


class Pooled:
    """A connection as it looks behind a transaction pooler: what it was told at the start is not who answers."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def get_server_pid(self) -> int:
        return int(self._connection.get_server_pid()) + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def test_behind_a_pooler_a_session_lock_is_refused(postgres_server: PostgresServer) -> None:
    """Before anything is asked; the connection is not left open, and the lease works without it."""
    place = PostgresPlace(postgres_server.url)
    lease, _ = prepared(place, LONG)
    opened: list[Any] = []

    async def open_one() -> Any:
        opened.append(await asyncpg.connect(place.url))
        return Pooled(opened[-1])

    async with connect(place.url) as db:
        with pytest.raises(CallError, match="a pooler stands between us"):
            async with Leader(db, lease, advisory=open_one):
                pass
        assert opened[0].is_closed()
        assert (await db.lease_holder(lease)).by is None
        async with Leader(db, lease) as leader:
            await leader.wait_for(Role.ACTIVE)


async def test_a_session_lock_is_postgresqls_alone(place: Place) -> None:
    """On other stores it is an error of the call."""
    if isinstance(place, PostgresPlace):
        return
    async with connect(place.url) as db:
        with pytest.raises(CallError, match="advisory locks are PostgreSQL's"):
            Leader(db, Lease("bot"), advisory=lambda: asyncpg.connect("postgresql://nowhere"))


async def test_callbacks_come_in_turn_and_a_slow_one_does_not_cost_the_lease(place: Place) -> None:
    """The lease is renewed while a callback runs; one that fails is logged and changes nothing."""
    lease, _ = prepared(place, 2 * SHORT)
    calls: list[str] = []
    enough = asyncio.Event()

    async def slow(leader: Leader) -> None:
        calls.append(f"active {leader.epoch}")
        await enough.wait()
        calls.append("active done")
        raise RuntimeError("a callback that fails")

    async with connect(place.url) as db:
        leader = Leader(db, lease, by="me", on_active=slow, on_passive=lambda _: calls.append("passive"), retry=0.02)
        assert leader.role is Role.PASSIVE
        with pytest.raises(NotLeading):
            leader.guard  # noqa: B018
        async with leader:
            await until(lambda: len(calls) == 1, "it leads")
            began = await db.lease_holder(lease)
            assert began.until is not None
            while (now := await db.lease_holder(lease)).until == began.until:
                assert now.epoch == began.epoch
            assert leader.active
            enough.set()
            await leader.wait_for(Role.ACTIVE)
            epoch = leader.epoch
        assert calls == [f"active {epoch}", "active done", "passive"]
        assert not leader.active
        assert (await db.lease_holder(lease)).by is None


@pytest.mark.parametrize("steps", range(8))
async def test_stepping_down_ends_at_whatever_moment_it_comes(tmp_path: Path, steps: int) -> None:
    """Also together with an answer: the cancellation of its loops is not forgotten, which would be a wait for ever."""
    place = SqlitePlace(f"sqlite:///{tmp_path / 'leader.db'}")
    lease, _ = prepared(place, LONG)
    async with connect(place.url) as db:
        leader = await Leader(db, lease).__aenter__()
        await leader.wait_for(Role.ACTIVE)
        await asyncio.to_thread(lambda: None)  # its loops are waiting by now
        leader._wake.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE):
            await leader.resign()
        assert (await db.lease_holder(lease)).by is None


async def test_a_leader_that_hears_nothing_stops_believing_and_comes_back() -> None:
    """Its server stands still: renewals hang, and nobody says that the lease is over but its own clock."""
    with valkey() as server:
        lease, _ = prepared(RedisPlace(server.url), SHORT)
        heard: list[str] = []
        async with connect(server.url) as db:
            leader = Leader(
                db,
                lease,
                retry=0.02,
                on_active=lambda _: heard.append("active"),
                on_passive=lambda _: heard.append("passive"),
            )
            async with leader:
                await leader.wait_for(Role.ACTIVE)
                epoch = leader.epoch
                server.pause()
                await leader.wait_for(Role.PASSIVE)
                with pytest.raises(NotLeading):
                    leader.epoch  # noqa: B018
                server.resume()
                await leader.wait_for(Role.ACTIVE)
                # the old one if its last renewal arrived after all: nobody else has led
                assert leader.epoch >= epoch
                assert leader.epoch == (await db.lease_holder(lease)).epoch
        assert heard[:3] == ["active", "passive", "active"]
        assert heard[-1] == "passive"
