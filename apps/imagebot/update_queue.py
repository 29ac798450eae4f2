"""Updates: stored before Telegram gets its 200, then worked on, those of one user one after the other.

The queue is a table, so neither a crash nor SIGTERM loses what was acknowledged, and the same `update_id` is worked on
once. `CAPACITY` bounds what an instance has taken into memory, not what may wait.
"""

import json
import logging
from typing import Any

import asyncpg
import sqlalchemy.exc
from aiogram import Bot, Dispatcher
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.types import Update
from pydantic import ValidationError

from imagebot.handlers.menu import BUTTONS, COMMANDS
from imagebot.lifecycle import MENU, WORK, updates
from imagebot.metrics import Metrics
from imagebot.services import DatabaseService
from imagebot.settings import Settings
from imagebot.telling import tell
from raceproof import AsyncStore, Claim, Leader, Received, Worker, column
from raceproof.inbox import Arrival
from raceproof.run import Failure, Finished

log = logging.getLogger("imagebot.updates")

CAPACITY = 100
WORKERS = 4
TRIES = 3
"""So often an update is given to a handler that fails on it."""
REST = 0.5
GIVE_UP = updates.lifecycle.moves["give_up"]
PASSING: tuple[type[Exception], ...] = (
    TelegramNetworkError,
    TelegramServerError,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    sqlalchemy.exc.OperationalError,
    sqlalchemy.exc.InterfaceError,
)
"""Errors of the network and the database: the same update may succeed later."""


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
        self._database = database
        self._db = database.store
        self._intake = intake
        self._dispatcher = dispatcher
        self._bot = bot
        self._by = settings.instance
        self._drain = settings.drain
        self._metrics = metrics
        self._workers: dict[str, Worker] = {}

    async def receive(self, arrival: Arrival) -> Received:
        """Keep an update; when this returns it is durable."""
        source = source_of(arrival.body)
        if source != arrival.source:
            # a line of its own: the menu only looks, and is answered while another update of its user waits or fails
            line = arrival.ordering_key and f"menu:{arrival.ordering_key}"
            arrival = arrival._replace(source=source, ordering_key=line)
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
            max_batch=CAPACITY,
            where=column("source") == source,
            returning=["body"],
            leader=leader,
            drain=self._drain,
        )
        return self._workers[source]

    async def handle(self, claim: Claim[Any, Any]) -> type[Finished] | None:
        """One update. What fails is tried again, and dead-lettered in the end; the worker survives it.

        The user's next updates wait meanwhile, so only a failure of the network or the database is tried for long.
        """
        number = claim.key[1]
        try:
            update = Update.model_validate(json.loads(claim.row["body"]), context={"bot": self._bot})
            if update.message is None and update.callback_query is None:
                # aiogram would print the whole of it as a warning
                log.info("[%s] [UPDATE_UNREADABLE] of a kind that was not asked for", number)
            else:
                await self._dispatcher.feed_update(self._bot, update)
        except ValidationError:
            log.warning("[%s] [UPDATE_UNREADABLE] unknown shape", number)
        except TelegramRetryAfter as error:
            raise Failure("Telegram: retry later", delay=float(error.retry_after)) from error
        except (TelegramForbiddenError, TelegramBadRequest) as error:
            log.info("[%s] [REPLY_REFUSED] %s", number, type(error).__name__)
        except Exception as error:
            if isinstance(error, PASSING) or getattr(error, "connection_invalidated", False):
                log.warning("[%s] [HANDLER_RETRY] attempt %s: %s", number, claim.attempt, type(error).__name__)
                raise Failure(type(error).__name__) from error
            log.exception("[%s] [HANDLER_ERROR] attempt %s", number, claim.attempt)
            if claim.attempt < TRIES:
                raise Failure(type(error).__name__, delay=REST) from error
            await self._give_up(claim)
            return Finished
        self._metrics.total_processed.inc()
        return None

    async def _give_up(self, claim: Claim[Any, Any]) -> None:
        """Dead-letter an update and tell its user, in one transaction; `doctor` shows it, and it can be revived."""
        async with self._database.transaction() as (_, db):
            gone = await db.move(GIVE_UP, claim, by=self._by)
            user = user_of(json.loads(claim.row["body"]))
            if gone.won and user is not None:
                await tell(db, int(user), int(user), f"update:{claim.key[1]}", "went_wrong")


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
