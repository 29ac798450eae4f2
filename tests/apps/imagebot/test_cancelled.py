"""What KIE or Telegram has answered is written down, also if whoever asked is cancelled or has lost its claim (A10)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiogram import Bot
from sqlalchemy import update

from imagebot.controller import LockController
from imagebot.delivery import Deliverer
from imagebot.generation import Generation
from imagebot.kie import Kie
from imagebot.lifecycle import Job, creation
from imagebot.metrics import Metrics
from imagebot.services import DatabaseService
from imagebot.settings import Settings
from imagebot.tables import generation_jobs
from imagebot.upkeep import Upkeep
from raceproof import Claim
from tests.apps.imagebot.test_delivery_lock import USER, ready

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


async def nothing(code: int, why: str) -> None: ...


class SlowKie(Kie):
    """Answers when it may, and says when it was asked."""

    def __init__(self, session: aiohttp.ClientSession, settings: Settings) -> None:
        super().__init__(session, settings, alarm=nothing)
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def create_task(self, *_: Any, **__: Any) -> str:
        self.asked.set()
        await self.may_answer.wait()
        return "task-9"


@pytest.fixture
async def kie() -> AsyncIterator[SlowKie]:
    settings = Settings(kie_api_key="a-key-for-the-tests", public_url="http://127.0.0.1:1", instance="test")
    async with aiohttp.ClientSession() as http:
        yield SlowKie(http, settings)


async def claimed(service: DatabaseService) -> Claim[Any, Any]:
    """A paid job that a worker has claimed."""
    await service.accounts.language_of(USER, USER, "en")
    await service.jobs.begin("j1", USER, USER, "a lighthouse")
    assert await service.jobs.confirm("j1", USER, 5) == "confirmed"
    [claim] = await service.store.claim(Job.submit, 1, by="test")
    return claim


async def lose(service: DatabaseService) -> None:
    """The lease ends, and another worker has the job."""
    async with service.transaction() as (connection, _):
        await connection.execute(update(generation_jobs).values(claimed_until=LONG_AGO))
    assert await service.store.claim(Job.submit, 1, by="another")


def generation(service: DatabaseService, kie: Kie) -> Generation:
    return Generation(service.database, service.storage, kie, Settings(instance="test"))


async def test_a_task_id_that_kie_returned_is_kept_when_the_handler_is_cancelled(
    service: DatabaseService, kie: SlowKie
) -> None:
    claim = await claimed(service)
    creating = asyncio.create_task(generation(service, kie).create(claim))
    await kie.asked.wait()
    await lose(service)
    kie.may_answer.set()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    job = await service.jobs.get("j1") or {}
    assert (job["status"], job["external_task_id"]) == ("generating", "task-9")
    assert job["creation_state"] == "delivered"


async def test_a_task_id_is_kept_when_the_claim_was_lost_while_kie_was_asked(
    service: DatabaseService, kie: SlowKie
) -> None:
    claim = await claimed(service)
    creating = asyncio.create_task(generation(service, kie).create(claim))
    await kie.asked.wait()
    await lose(service)
    kie.may_answer.set()
    await creating
    job = await service.jobs.get("j1") or {}
    assert (job["status"], job["external_task_id"]) == ("generating", "task-9")


async def test_a_creation_that_is_cancelled_without_an_answer_is_uncertain(
    service: DatabaseService, kie: SlowKie, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imagebot.lasting.to_the_end.__defaults__", (0.05,))
    claim = await claimed(service)
    creating = asyncio.create_task(generation(service, kie).create(claim))
    await kie.asked.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    job = await service.jobs.get("j1") or {}
    assert (job["external_task_id"], job["creation_state"]) == (None, "uncertain")


class SlowBot(Bot):
    """Takes a picture when it may."""

    def __init__(self) -> None:
        super().__init__("1:token")
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def send_photo(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        await self.may_answer.wait()


async def test_a_picture_that_telegram_took_is_marked_when_the_sender_is_cancelled(
    service: DatabaseService,
) -> None:
    job_id = await ready(service)
    bot = SlowBot()
    deliverer = Deliverer(bot, service.storage, Settings(instance="test"))
    sending = asyncio.create_task(deliverer.deliver(job_id, "POLL", "corr"))
    await bot.asked.wait()
    sending.cancel()
    bot.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await bot.session.close()
    assert ((await service.jobs.get(job_id)) or {})["status"] == "delivered"
    assert await service.accounts.balance(USER) == (1500, 0)


async def test_a_creation_whose_asker_died_is_settled_once_its_task_is_known(
    service: DatabaseService, database_url: str
) -> None:
    """A callback has named the task; the list of unfinished creations does not show it for ever."""
    await claimed(service)
    assert (await service.store.begin_delivery(creation, "j1", by="one that dies")).won
    (await service.store.move(Job.adopt, "j1", set={"external_task_id": "task-9"})).must()
    async with service.transaction() as (connection, _):
        await connection.execute(update(generation_jobs).values(creating_at=LONG_AGO))
    settings = Settings(database_url=database_url, instance="test")
    lock = LockController(service, settings, Metrics())
    await Upkeep(service.database, lock.leader, Metrics())._settle_creations()
    assert await service.store.deliveries(creation) == []
