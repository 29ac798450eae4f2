"""A paid job ends by itself, whatever goes wrong (A9): delivered, or the money goes back and its user is told."""

import asyncio
import io
import json
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from sqlalchemy import select, text, update

from imagebot.deadlines import Deadlines
from imagebot.doctor import _questions as questions
from imagebot.doctor import examine
from imagebot.lifecycle import Job
from imagebot.services import DatabaseService
from imagebot.settings import Settings
from imagebot.tables import generation_jobs, transactions
from raceproof.ops.cli.program import program
from tests.apps.imagebot.conftest import USER, World, until
from tests.apps.imagebot.test_bot import balance, ended
from tests.apps.imagebot.test_delivery_lock import ready
from tests.apps.imagebot.test_delivery_lock import stale as make_stale

ADMIN, PAYER = 1, 7


def deadlines(service: DatabaseService) -> Deadlines:
    return Deadlines(service.database, Settings(instance="test", admin_ids="1"))


async def pass_time(service: DatabaseService, seconds: float) -> None:
    """The store's clock cannot be moved, the times in the row can."""
    async with service.transaction() as (connection, _):
        row = (await connection.execute(select(generation_jobs))).mappings().one()
        moved = {name: row[name] - timedelta(seconds=seconds) for name in ("ready_at", "doubted_at") if row[name]}
        await connection.execute(update(generation_jobs).values(**moved))


async def told(service: DatabaseService) -> list[tuple[int, str]]:
    """Notices: to whom, and which text."""
    async with service.transaction() as (connection, _):
        bodies = (await connection.execute(text("SELECT body FROM notices ORDER BY id"))).scalars().all()
    notices: list[dict[str, Any]] = [json.loads(bytes(body)) for body in bodies]
    return [(one["user_id"], one["text"]) for one in notices]


async def uncertain(service: DatabaseService) -> str:
    """A job whose send had no answer."""
    job_id = await ready(service)
    job = await service.storage.try_acquire_delivery_lock(job_id)
    assert job is not None
    assert await service.storage.begin_sending(job_id)
    await service.storage.mark_uncertain(job, "no answer")
    return job_id


async def status(service: DatabaseService, job_id: str) -> str:
    return str((await service.jobs.get(job_id) or {})["status"])


async def test_a_picture_that_cannot_be_sent_ends_with_a_message_and_the_money_back(world: World) -> None:
    world.telegram.refusals += [(401, "Unauthorized")] * 500
    await world.start("one", DELIVERY_LIMIT="2")
    world.telegram.chat(ADMIN)
    job_id = await world.order()
    await ended(world, job_id, "expired")
    await until(lambda: any("could not send you" in one for one in world.texts()), "the bad news")
    await until(lambda: any("cannot be delivered" in one for one in world.texts(ADMIN)), "the alert")
    await until(lambda: any("money back" in one for one in world.texts()), "the progress message")
    assert await balance(world) == (2000, 0)
    assert world.photos() == []


async def test_an_uncertain_delivery_that_no_user_settles_is_refunded(world: World) -> None:
    await world.start("one", UNCERTAIN_LIMIT="2")
    world.kie.gate.clear()
    job_id = await world.order()
    await until(lambda: world.kie.looks, "a look")
    world.telegram.trouble = world.telegram.trouble.parsed("vanish")
    world.kie.gate.set()
    await until(lambda: world.lines("DELIVER_UNCERTAIN"), "the doubt")
    world.telegram.trouble = world.telegram.trouble.parsed("")
    await ended(world, job_id, "refunded")
    await until(lambda: any("still do not know" in one for one in world.texts()), "the news")
    assert sum("Is it here?" in one for one in world.texts()) >= 1
    assert await balance(world) == (2000, 0)
    world.telegram.press(USER, *(world.button("here|") or (0, "")))
    await world.say("/help")
    await until(lambda: any("/topup" in one for one in world.texts()), "the answer after the late press")
    assert await balance(world) == (2000, 0)


async def test_a_job_within_its_deadline_is_left_alone(service: DatabaseService) -> None:
    job_id = await ready(service)
    await pass_time(service, 3500)
    assert await deadlines(service).look() == 0
    assert await status(service, job_id) == "ready"


async def test_a_picture_that_is_being_sent_is_not_refunded_at_its_deadline(service: DatabaseService) -> None:
    job_id = await ready(service)
    await pass_time(service, 3700)
    assert await service.storage.try_acquire_delivery_lock(job_id) is not None
    assert await deadlines(service).look() == 0
    assert await service.storage.mark_delivered(job_id)
    assert await service.accounts.balance(PAYER) == (1500, 0)


async def test_a_job_past_its_deadline_is_ended_once_however_many_look(service: DatabaseService) -> None:
    job_id = await ready(service)
    await pass_time(service, 3700)
    assert await deadlines(service).look() == 1
    assert await deadlines(service).look() == 0
    assert await status(service, job_id) == "expired"
    assert await told(service) == [(PAYER, "undelivered"), (ADMIN, "alert_delivery")]
    assert await service.accounts.balance(PAYER) == (2000, 0)


async def test_a_user_who_was_asked_is_reminded_once_and_then_gets_the_money_back(
    service: DatabaseService,
) -> None:
    job_id = await uncertain(service)
    await pass_time(service, 50_000)
    for _ in range(2):
        assert await deadlines(service).look() == 0
    assert await told(service) == [(PAYER, "uncertain"), (PAYER, "uncertain")]
    await pass_time(service, 40_000)
    assert await deadlines(service).look() == 1
    assert await status(service, job_id) == "refunded"
    assert (await told(service))[-1] == (PAYER, "unanswered")
    assert await service.accounts.balance(PAYER) == (2000, 0)


async def test_a_job_that_is_sent_again_has_its_whole_time_once_more(service: DatabaseService) -> None:
    job_id = await uncertain(service)
    await pass_time(service, 80_000)
    job = await service.jobs.get(job_id)
    assert await service.storage.resolve(job, False, "user 7")  # type: ignore[arg-type]
    assert await deadlines(service).look() == 0
    assert await status(service, job_id) == "ready"


async def test_a_job_whose_sender_died_can_be_refunded_although_its_row_says_sending(
    service: DatabaseService,
) -> None:
    job_id = await ready(service)
    assert await service.storage.try_acquire_delivery_lock(job_id) is not None
    assert await service.storage.begin_sending(job_id)
    await make_stale(service)
    assert await service.storage.try_acquire_delivery_lock(job_id) is None
    assert await status(service, job_id) == "uncertain"
    assert ((await service.jobs.get(job_id)) or {})["delivery_state"] == "sending"
    assert (await service.jobs.refund(job_id, "admin", "asked for")).won
    assert await service.accounts.balance(PAYER) == (2000, 0)


async def test_a_sender_that_comes_back_after_the_refund_can_neither_mark_nor_charge(
    service: DatabaseService,
) -> None:
    job_id = await ready(service)
    assert await service.storage.try_acquire_delivery_lock(job_id) is not None
    assert await service.storage.begin_sending(job_id)
    (await service.store.move(Job.doubt, job_id, set={"error_text": "it stands still"})).must()
    await pass_time(service, 90_000)
    assert await deadlines(service).look() == 1
    assert not await service.storage.mark_delivered(job_id)
    assert await status(service, job_id) == "refunded"
    assert await service.accounts.balance(PAYER) == (2000, 0)
    async with service.transaction() as (connection, _):
        kinds = (await connection.execute(select(transactions.c.kind))).scalars().all()
    assert sorted(kinds) == ["hold", "release", "welcome"]


async def test_doctor_names_stuck_jobs_and_its_repair_of_dead_events_is_a_command_that_works(
    service: DatabaseService, database_url: str, tmp_path: Path
) -> None:
    await ready(service)
    await pass_time(service, 4000)
    out = io.StringIO()
    settings = Settings(database_url=database_url, folder=tmp_path, instance="test")
    with redirect_stdout(out):
        assert await examine(settings, "json", fix=False) == 6
    found = {one["check"]: one for one in json.loads(out.getvalue())}
    assert found["jobs that are stuck at ready"]["evidence"] == "1"
    assert found["jobs that are stuck at ready"]["result"] == "problem"
    assert found["jobs that are stuck at uncertain"]["result"] == "ok"
    for check in ("telegram_updates", "kie_callbacks", "notices"):
        _, _, repair = next(one for one in questions() if one[0] == f"{check} that were given up")
        command = [*repair.split()[1:], "--url", database_url]
        done = await asyncio.to_thread(CliRunner().invoke, program, command)
        assert done.exit_code == 0, done.output
