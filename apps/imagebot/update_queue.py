"""Updates: kept before Telegram is told 200, then worked on, of one user one after the other.

The queue is a table, so neither a crash nor SIGTERM loses what was acknowledged, and the same `update_id` is worked on
once. `CAPACITY` bounds what an instance has taken into memory, not what may wait.
"""

import json
import logging
from typing import Any

from aiogram import Bot, Dispatcher
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError, TelegramRetryAfter
from aiogram.types import Update
from pydantic import ValidationError

from imagebot.handlers.menu import BUTTONS, COMMANDS
from imagebot.lifecycle import MENU, WORK, updates
from imagebot.metrics import Metrics
from imagebot.services import DatabaseService
from imagebot.settings import Settings
from raceproof import Arrival, AsyncStore, Claim, Failure, Leader, Received, Worker, column

log = logging.getLogger("imagebot.updates")

CAPACITY = 100
WORKERS = 4


class UpdateQueueManager:
    """Between the webhook and the dispatcher."""

    def __init__(
        self,
        database: DatabaseService,
        intake: AsyncStore,
        dispatcher: Dispatcher,
        bot: Bot,
        settings: Settings,
        metrics: Metrics,
    ) -> None:
        self._db = database.store
        self._intake = intake
        self._dispatcher = dispatcher
        self._bot = bot
        self._by = settings.instance
        self._metrics = metrics
        self._workers: dict[str, Worker] = {}

    async def receive(self, arrival: Arrival) -> Received:
        """Keep an update; when this returns it is durable."""
        source = source_of(arrival.body)
        if source != arrival.source:
            arrival = arrival._replace(source=source)
        received = await self._intake.receive(updates, arrival)
        if not received.duplicate:
            self._metrics.total_received.inc()
            if source in self._workers:
                self._workers[source].wake()
        return received

    def worker(self, source: str, leader: Leader | None = None) -> Worker:
        """Feeds the updates of one source to the dispatcher, some of them only while this instance leads.

        It is woken by those that come in here.
        """
        self._workers[source] = Worker(
            self._db,
            updates.work,
            self.handle,
            finish=updates.finish,
            by=self._by,
            parallel=WORKERS,
            most=CAPACITY,
            where=column("source") == source,
            returning=["body"],
            leader=leader,
        )
        return self._workers[source]

    async def handle(self, claim: Claim[Any, Any]) -> None:
        """One update. What fails is tried again, and set aside in the end; the worker survives it."""
        number = claim.key[1]
        try:
            update = Update.model_validate(json.loads(claim.row["body"]), context={"bot": self._bot})
            await self._dispatcher.feed_update(self._bot, update)
        except ValidationError:
            log.warning("[%s] [UPDATE_UNREADABLE] it has a shape that nobody here knows", number)
        except TelegramRetryAfter as error:
            raise Failure("Telegram: retry later", delay=float(error.retry_after)) from error
        except (TelegramForbiddenError, TelegramBadRequest) as error:
            log.info("[%s] [REPLY_REFUSED] %s", number, type(error).__name__)
        except Exception as error:
            log.exception("[%s] [HANDLER_ERROR] attempt %s", number, claim.attempt)
            raise Failure(type(error).__name__) from error
        self._metrics.total_processed.inc()


def source_of(body: bytes) -> str:
    """Whether an update is on the allow-list, which every instance answers, or for the ACTIVE one."""
    if b"\\" not in body and b'"/' not in body and b"callback_query" not in body:
        return WORK  # nothing is spelled in another way, so it is neither a command nor a button
    update = json.loads(body)
    query, message = update.get("callback_query"), update.get("message")
    if isinstance(query, dict):
        return MENU if query.get("data") in BUTTONS else WORK
    text = message.get("text") if isinstance(message, dict) else None
    if not isinstance(text, str) or not text.startswith("/"):
        return WORK
    command = text[1:].split(maxsplit=1)[0].split("@")[0] if len(text) > 1 else ""
    return MENU if command in COMMANDS else WORK


def user_of(update: Any) -> str | None:
    """Whose updates are worked on one after the other."""
    for part in update.values():
        if isinstance(part, dict) and isinstance(part.get("from"), dict):
            return str(int(part["from"]["id"]))
    return None
