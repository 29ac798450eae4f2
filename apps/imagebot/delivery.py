"""Pictures go to their users: callback and poller compete for the lock, and the winner sends.

How the send ended is told by what Telegram said, or by what it did not say: sent, surely not sent, never possible, or
unknown. There is no other way out of `deliver`.
"""

import json
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
from aiogram import Bot
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.types import BufferedInputFile

from imagebot.fetching import PHOTO, ForbiddenAddress, Gone, NotFetched, check, fetch
from imagebot.lasting import to_the_end
from imagebot.lifecycle import Job
from imagebot.settings import Settings
from imagebot.storage import JobRow, Storage
from imagebot.texts import caption
from raceproof.declare import Move
from raceproof.deliveries import NotSent

log = logging.getLogger("imagebot.delivery")

Path = Literal["DELIVER", "POLL"]
"""Who asks: the callback or the poller; the first part of its log tags."""


class Unclear(Exception):
    """Telegram has not answered: the picture may be there or not."""


class Never(Exception):
    """It can never be delivered; `end` is the move that says so."""

    def __init__(self, end: Move[Any], why: str) -> None:
        super().__init__(why)
        self.end = end


class _UrlRefused(Exception):
    """Telegram could not fetch the picture: it gets the bytes instead."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What came of it: `sent`, `skipped`, `failed`, `never`, `uncertain`, `lost`; and how long to wait if it failed."""

    outcome: str
    again_in: float | None = None


class Deliverer:
    """Sends results."""

    def __init__(self, bot: Bot, storage: Storage, settings: Settings) -> None:
        self._bot = bot
        self._storage = storage
        self._settings = settings
        self._loopback = settings.simulated
        self._timeout = int(settings.send_timeout) or 1

    async def deliver(self, task_id: str, path: Path, corr: str) -> Delivered:
        """Send the picture of this job if no other sender does; what Telegram answered is marked even when cancelled."""
        return await to_the_end(self._deliver(task_id, path, corr))

    async def _deliver(self, task_id: str, path: Path, corr: str) -> Delivered:
        job = await self._storage.try_acquire_delivery_lock(task_id)
        if job is None:
            log.info("[%s] [%s_LOCK_SKIP] Already delivered or delivering", corr, path)
            return Delivered("skipped")
        log.info("[%s] [%s_LOCK_WIN] Won delivery race", corr, path)
        job_id = job["job_id"]
        try:
            await self._deliver_result_to_telegram(job)
        except NotSent as error:
            await self._storage.mark_delivered(job_id, success=False, error=str(error))
            log.warning("[%s] [DELIVER_FAILED] job_id=%s %s", corr, job_id, error)
            return Delivered("failed", getattr(error, "again_in", None))
        except Never as error:
            await self._storage.mark_undeliverable(job, error.end, str(error))
            log.warning("[%s] [DELIVER_NEVER] job_id=%s %s", corr, job_id, error)
            return Delivered("never")
        except BaseException as error:
            await self._storage.mark_uncertain(job, f"{type(error).__name__}: {error}"[:300])
            log.warning("[%s] [DELIVER_UNCERTAIN] job_id=%s %s", corr, job_id, type(error).__name__)
            if not isinstance(error, Exception):
                raise
            return Delivered("uncertain")
        if not await self._storage.mark_delivered(job_id, success=True):
            log.error(
                "[%s] [MARK_LOST] job_id=%s was sent, but its send permit had passed to another sender", corr, job_id
            )
            return Delivered("lost")
        log.info("[%s] [MARK_DELIVERED] job_id=%s", corr, job_id)
        return Delivered("sent")

    async def _deliver_result_to_telegram(self, job: JobRow) -> None:
        """By address first; if Telegram cannot fetch it, as bytes, because it will not try that address again for days."""
        urls = json.loads(job["result_urls"] or "[]")
        if not urls:
            raise Never(Job.expire, "there is no result")
        try:
            check(urls[0], self._loopback)
        except ForbiddenAddress as error:
            raise Never(Job.expire, str(error)) from error
        if not await self._storage.begin_sending(job["job_id"]):
            raise NotSent("another sender has taken over the send permit")
        told = caption(job)
        try:
            send: Any = self._bot.send_video if self._is_video(job) else self._bot.send_photo
            await _told(send(job["chat_id"], urls[0], caption=told, request_timeout=self._timeout))
        except _UrlRefused:
            await self._upload(job, urls[0], told)

    def _is_video(self, job: JobRow) -> bool:
        model = self._settings.model(job["model"])
        return model is not None and model.kind == "video"

    async def _upload(self, job: JobRow, url: str, told: str) -> None:
        try:
            picture = await fetch(url, self._loopback)
        except Gone as error:
            raise Never(Job.expire, f"the result has expired: {error}") from error
        except NotFetched as error:
            raise NotSent(f"the result could not be fetched: {error}") from error
        video = self._is_video(job)
        file = BufferedInputFile(picture, f"{job['job_id']}.{'mp4' if video else 'png'}")
        if not await self._storage.begin_sending(job["job_id"]):
            raise NotSent("another sender has taken over the send permit")
        as_picture: Any = self._bot.send_photo if len(picture) <= PHOTO else self._bot.send_document
        send: Any = self._bot.send_video if video else as_picture
        try:
            await _told(send(job["chat_id"], file, caption=told, request_timeout=self._timeout))
        except _UrlRefused as error:
            raise Never(Job.expire, "Telegram does not take the picture") from error


async def _told(sending: Awaitable[Any]) -> None:
    """Wait for Telegram, and say in our words what its answer means."""
    try:
        await sending
    except TelegramRetryAfter as error:
        later = NotSent(f"Telegram: retry after {error.retry_after} s")
        later.again_in = float(error.retry_after)  # type: ignore[attr-defined]
        raise later from error
    except TelegramForbiddenError as error:
        raise Never(Job.block, "the user has blocked the bot") from error
    except TelegramNotFound as error:
        raise Never(Job.block, "Telegram does not know this chat") from error
    except TelegramBadRequest as error:
        if "chat not found" in error.message.lower():
            raise Never(Job.block, "Telegram does not know this chat") from error
        raise _UrlRefused from error
    except (TelegramUnauthorizedError, TelegramConflictError) as error:
        raise NotSent(f"Telegram refuses the bot: {type(error).__name__}") from error
    except TelegramEntityTooLarge as error:
        raise Never(Job.expire, "Telegram does not take a file of this size") from error
    except TelegramNetworkError as error:
        if isinstance(error.__cause__, aiohttp.ClientConnectorError):
            raise NotSent("Telegram cannot be reached") from error
        raise Unclear("no answer of Telegram") from error
