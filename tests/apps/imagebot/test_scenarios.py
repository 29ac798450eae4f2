"""The five scenarios of note 000 (A2, A3, A4), with real processes on both stores."""

import re
import signal

from sqlalchemy import text

from tests.apps.imagebot.conftest import World, until
from tests.standstill import stand_still

CORRELATED = re.compile(r"\[j\d+/(cb|poll)-[0-9a-f]{6}\] \[[A-Z_]+\]")


async def test_callback_and_poller_compete_and_one_sends(world: World) -> None:
    one = await world.start("one")
    two = await world.start("two")
    world.kie.trouble = world.kie.trouble.parsed("lost")
    world.telegram.photo_gate.clear()
    job_id = await world.order()
    task_id = await world.task_of(job_id)
    for process in (one, two):
        assert await world.call_back(process, task_id) == 200
    await until(lambda: world.telegram.waiting_photos, "a send")
    await until(lambda: world.lines("POLL_LOCK_SKIP") + world.lines("DELIVER_LOCK_SKIP"), "a loser")
    world.telegram.photo_gate.set()
    await until(lambda: world.lines("MARK_DELIVERED"), "the mark")
    assert len(world.photos()) == 1
    assert len(world.lines("POLL_LOCK_WIN") + world.lines("DELIVER_LOCK_WIN")) == 1
    assert world.lines("MARK_DELIVERED")[0].endswith(f"job_id={job_id}")
    for tag in ("POLL_LOCK_WIN", "DELIVER_LOCK_WIN", "POLL_LOCK_SKIP", "DELIVER_LOCK_SKIP", "MARK_DELIVERED"):
        assert all(CORRELATED.search(line) for line in world.lines(tag))
    assert await world.status(job_id) == "delivered"


async def test_in_a_deploy_overlap_the_passive_instance_delivers_and_the_active_one_skips(
    world: World,
) -> None:
    old = await world.start("old", POLL="30")
    new = await world.start("new", POLL="30", TAKEOVER="30")
    assert (await new.health())["mode"] == "PASSIVE"
    _, task_id = await world.order_for_a_callback()
    old.kill()
    assert await world.call_back(new, task_id) == 200
    await until(lambda: new.lines("MARK_DELIVERED"), "the mark")
    assert (await new.health())["mode"] == "PASSIVE"
    assert len(new.lines("DELIVER_LOCK_WIN")) == 1
    old.start()
    await until(lambda: len(old.lines("START")) == 2, "the old one, again")
    assert await world.call_back(new, task_id, later=1) == 200
    await until(lambda: world.lines("DELIVER_LOCK_SKIP"), "the loser")
    assert len(world.photos()) == 1


async def test_a_retried_callback_sends_nothing_again(world: World) -> None:
    one = await world.start("one", POLL="30")
    _, task_id = await world.order_for_a_callback()
    assert await world.call_back(one, task_id) == 200
    await until(lambda: one.lines("MARK_DELIVERED"), "the mark")
    for later in (1, 2):
        assert await world.call_back(one, task_id, later) == 200
    await until(lambda: len(one.lines("DELIVER_LOCK_SKIP")) == 2, "two losers")
    assert await world.call_back(one, task_id, 2) == 200  # a replay of the very same one is not even worked on
    assert len(world.photos()) == 1
    assert len(one.lines("DELIVER_LOCK_WIN")) == 1


async def test_a_failed_delivery_is_released_and_the_poller_succeeds(world: World) -> None:
    one = await world.start("one", POLL="1")
    world.kie.trouble = world.kie.trouble.parsed("lost")
    world.telegram.refusals.append((429, "Too Many Requests: retry after 1"))
    job_id = await world.order()
    task_id = await world.task_of(job_id)
    await world.call_back(one, task_id)
    await until(lambda: one.lines("MARK_DELIVERED"), "the mark")
    assert len(one.lines("DELIVER_FAILED")) == 1
    assert len(one.lines("POLL_LOCK_WIN") + one.lines("DELIVER_LOCK_WIN")) == 2
    assert len(world.photos()) == 1
    assert await world.status(job_id) == "delivered"


async def test_a_stale_lock_is_taken_over_by_the_poller(world: World) -> None:
    one = await world.start("one", UNCERTAIN_DELIVERY="resend", POLL="0.2")
    world.telegram.photo_gate.clear()
    job_id = await world.order()
    await until(lambda: world.telegram.waiting_photos == 1, "a send")
    one.kill()
    assert (await world.job(job_id))["delivery_state"] == "sending"
    two = await world.start("two", UNCERTAIN_DELIVERY="resend")
    await five_minutes_pass(world)
    world.telegram.photo_gate.set()
    await until(lambda: two.lines("MARK_DELIVERED"), "the mark")
    assert two.lines("POLL_LOCK_WIN")
    assert await world.status(job_id) == "delivered"


async def test_with_hold_a_sender_that_died_leaves_an_uncertain_job_that_its_user_settles(
    world: World,
) -> None:
    one = await world.start("one")
    world.telegram.photo_gate.clear()
    job_id = await world.order()
    await until(lambda: world.telegram.waiting_photos == 1, "a send")
    one.kill()
    await world.start("two")
    await five_minutes_pass(world)

    async def uncertain() -> bool:
        return await world.status(job_id) == "uncertain"

    await until(uncertain, "an uncertain job")
    before = len(world.photos())
    world.telegram.photo_gate.set()
    await world.press("again|", times=2)
    await until(lambda: world.lines("MARK_DELIVERED"), "the mark")
    assert await world.status(job_id) == "delivered"
    assert len(world.photos()) == before + 1


async def test_an_active_instance_that_was_stopped_past_its_lease_can_neither_mark_nor_lead(
    world: World,
) -> None:
    """It sends, stands still, and goes on when somebody else has sent and marked, and is ACTIVE."""
    one = await world.start("one", UNCERTAIN_DELIVERY="resend", SEND_TIMEOUT="300")
    world.telegram.photo_gate.clear()
    job_id = await world.order()
    await until(lambda: world.telegram.waiting_photos == 1, "a send")
    stand_still(one.pid, world.database)
    two = await world.start("two", first=True, UNCERTAIN_DELIVERY="resend")
    await five_minutes_pass(world)
    await until(lambda: world.telegram.waiting_photos == 2, "the second one's send")
    world.telegram.photo_gate.set()
    await until(lambda: two.lines("MARK_DELIVERED"), "the mark")
    one.signal(signal.SIGCONT)
    await until(lambda: one.lines("MARK_LOST"), "the end of the first one's send")

    async def is_passive() -> bool:
        return bool((await one.health())["mode"] == "PASSIVE")

    await until(is_passive, "the first one to see that it leads no more")
    assert one.lines("MARK_DELIVERED") == []
    assert (await two.health())["mode"] == "ACTIVE"
    job = await world.job(job_id)
    assert (job["status"], job["delivered_by"]) == ("delivered", "two")
    before = len(world.texts())
    await world.say("/balance")
    await until(lambda: len(world.texts()) > before, "the balance")
    async with world.opened() as database, database.transaction() as (connection, _):
        charged = await connection.execute(text("SELECT count(*) FROM transactions WHERE kind = 'charge'"))
        assert charged.scalar_one() == 1


async def five_minutes_pass(world: World) -> None:
    """For every lock and claim of a job: the store's clock cannot be moved, the times in the row can."""
    async with world.opened() as database, database.transaction() as (connection, _):
        for name in ("delivering_at", "watched_until"):
            earlier = (
                f"strftime('%Y-%m-%d %H:%M:%f', {name}, '-301 seconds')"
                if database.store.dialect == "sqlite"
                else f"{name} - INTERVAL '301 seconds'"
            )
            await connection.execute(text(f"UPDATE generation_jobs SET {name} = {earlier} WHERE {name} IS NOT NULL"))
