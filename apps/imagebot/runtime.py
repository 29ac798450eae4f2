"""Everything that runs beside the web server while there is a database, and the order in which it ends."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramAPIError
from aiogram.methods import (
    AnswerCallbackQuery,
    EditMessageText,
    Response,
    SendDocument,
    SendMessage,
    SendPhoto,
    SendVideo,
    SetWebhook,
)

from appkit.loops import Loop, Loops
from appkit.working import working
from imagebot.alerts import KieAlarm
from imagebot.controller import STOPPED, LockController
from imagebot.deadlines import Deadlines
from imagebot.delivery import Deliverer
from imagebot.generation import Generation
from imagebot.handlers import dispatcher
from imagebot.handlers.context import Context
from imagebot.kie import Kie
from imagebot.lifecycle import MENU, WORK, callbacks
from imagebot.metrics import Metrics
from imagebot.notifying import Notifying
from imagebot.services import DatabaseService
from imagebot.settings import Settings, revealed
from imagebot.update_queue import UpdateQueueManager
from imagebot.upkeep import Upkeep
from imagebot.watching import Watching
from raceproof import AsyncStore, Received
from raceproof.inbox import Arrival
from raceproof.run import Role

log = logging.getLogger("imagebot.runtime")

_ANSWERS = tuple(
    Response[method.__returning__]  # type: ignore[name-defined]
    for method in (
        SendMessage,
        SendPhoto,
        SendVideo,
        SendDocument,
        EditMessageText,
        AnswerCallbackQuery,
        SetWebhook,
    )
)
"""Kept, because pydantic forgets a generic model without references, and aiogram would build it again for each answer."""

ALLOWED_UPDATES = ["message", "callback_query"]
TIDY = 3600.0


class Runtime:
    """The working parts, with a database under them."""

    def __init__(
        self,
        database: DatabaseService,
        bot: Bot,
        kie: Kie,
        settings: Settings,
        metrics: Metrics,
        loops: Loops,
        intake: AsyncStore,
    ) -> None:
        self._settings = settings
        self._bot = bot
        self._loops = loops
        self._intake = intake
        self.lock = LockController(database, settings, metrics)
        self.queue = UpdateQueueManager(
            database, intake, dispatcher(Context(settings, database)), bot, settings, metrics
        )
        deliverer = Deliverer(bot, database.storage, settings)
        generation = Generation(database.database, database.storage, kie, settings)
        watching = Watching(database.database, database.storage, generation, deliverer, settings)
        self._deadlines = Deadlines(database.database, settings)
        self._upkeep = Upkeep(database.database, self.lock.leader, metrics)
        self._workers = {
            "menu": self.queue.worker(MENU),
            "updates": self.queue.worker(WORK, self.lock.leader),
            "callbacks": watching.callback_worker(),
            "poller": watching.poll_worker(),
            "creation": generation.worker(),
            "notices": Notifying(bot, database, settings).worker(),
        }

    async def keep_callback(self, arrival: Arrival) -> Received:
        """Store a callback of KIE, then answer 200."""
        received = await self._intake.receive(callbacks, arrival)
        self._workers["callbacks"].wake()
        return received

    def start(self) -> None:
        """Begin all loops."""
        self._loops.watch(self._settings.database)
        for name, worker in self._workers.items():
            self._loops.start(name, working(worker))
        self._loops.start("active", self._while_active)
        self._loops.start("heartbeat", self.lock.heartbeat, silent=3 * self._settings.heartbeat)
        self._loops.start("figures", self._measure)
        self._loops.start("deadlines", self._deadlines.run)

    async def drain(self) -> None:
        """Resign as leader, take nothing more, let running work end."""
        await self.lock.leader.resign()
        for worker in self._workers.values():
            worker.stop()
        await self._loops.drain(*self._workers, seconds=self._settings.drain + 2)
        await self.lock.write(STOPPED)

    async def _while_active(self, loop: Loop) -> None:
        """What the ACTIVE instance does beside its updates: it tells Telegram where we are, and tidies up."""
        beating = asyncio.create_task(loop.beating())
        try:
            while True:
                await self.lock.leader.wait_for(Role.ACTIVE)
                duties = [asyncio.create_task(self._set_webhook()), asyncio.create_task(self._tidy())]
                try:
                    await self.lock.leader.wait_for(Role.PASSIVE)
                finally:
                    for duty in duties:
                        duty.cancel()
                    await asyncio.gather(*duties, return_exceptions=True)
        finally:
            beating.cancel()

    async def _set_webhook(self) -> None:
        """Tell Telegram where we are; again and again until it has heard."""
        rest = 1.0
        secret = revealed(self._settings.webhook_secret)
        url = f"{self._settings.public_url.rstrip('/')}/webhook/{secret}"
        while True:
            try:
                await self._bot.set_webhook(
                    url, secret_token=secret, allowed_updates=ALLOWED_UPDATES, request_timeout=10
                )
                log.info("[WEBHOOK] set")
                return
            except TelegramAPIError as error:
                log.warning("[WEBHOOK] not set: %s, again in %.0f s", type(error).__name__, rest)
                await asyncio.sleep(rest)
                rest = min(2 * rest, 60.0)

    async def _tidy(self) -> None:
        while True:
            try:
                await self._upkeep.tidy()
            except Exception as error:
                log.warning("[UPKEEP] %s", type(error).__name__)
            await asyncio.sleep(TIDY)

    async def _measure(self, loop: Loop) -> None:
        while True:
            loop.beat()
            await self._upkeep.measure()
            await asyncio.sleep(5)


@asynccontextmanager
async def running(
    database: DatabaseService, settings: Settings, metrics: Metrics, loops: Loops
) -> AsyncIterator[Runtime]:
    """The runtime at work; whoever leaves the block has drained it before."""
    session = AiohttpSession(api=TelegramAPIServer.from_base(settings.telegram_api))
    bot = Bot(revealed(settings.telegram_bot_token), session=session)
    alarm = KieAlarm(database.store, settings)
    try:
        async with aiohttp.ClientSession(trust_env=False) as http, database.intake() as intake:
            runtime = Runtime(database, bot, Kie(http, settings, alarm), settings, metrics, loops, intake)
            async with runtime.lock.leader, loops:
                runtime.start()
                yield runtime
    finally:
        await bot.session.close()
