"""Notices go out: texts to users and admins, in the order in which things happened to them."""

import contextlib
import json
import logging
from typing import Any

from aiogram import Bot
from aiogram.exceptions import (
    TelegramAPIError,
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramRetryAfter,
)

from imagebot.handlers.admin import topup_buttons
from imagebot.handlers.context import Speaker, keyboard
from imagebot.lifecycle import notices
from imagebot.services import DatabaseService
from imagebot.settings import Settings
from imagebot.texts import STATUSES, word
from raceproof import Claim, Worker
from raceproof.run import Failure

log = logging.getLogger("imagebot.notifying")

ENDS = ("failed", "not_made", "expired", "undelivered", "unanswered", "refunded")
"""Notices about jobs that have ended without a picture."""


class Notifying:
    """Sends what `telling` has kept."""

    def __init__(self, bot: Bot, database: DatabaseService, settings: Settings) -> None:
        self._bot = bot
        self._database = database
        self._settings = settings
        self._timeout = int(settings.send_timeout) or 1

    def worker(self) -> Worker:
        return Worker(
            self._database.store,
            notices.work,
            self.send,
            finish=notices.finish,
            by=self._settings.instance,
            parallel=4,
            max_batch=32,
            drain=self._settings.drain,
            returning=["body"],
        )

    async def send(self, claim: Claim[Any, Any]) -> None:
        """One notice; who cannot be told any more is not asked again."""
        told = json.loads(claim.row["body"])
        try:
            await self._send(told["user_id"], told["chat_id"], told["text"], told["values"])
        except TelegramRetryAfter as error:
            raise Failure(str(error), delay=float(error.retry_after)) from error
        except (TelegramForbiddenError, TelegramBadRequest) as error:
            log.info("[%s] [NOTICE_REFUSED] %s", claim.key[1], type(error).__name__)
        except TelegramAPIError as error:
            raise Failure(type(error).__name__) from error

    async def _send(self, user_id: int, chat_id: int, text: str, values: dict[str, Any]) -> None:
        language = await self._database.accounts.language(user_id) or "en"
        speaker = Speaker(user_id, chat_id, language, 0)
        shown = {
            name: self._settings.price(value) if name in ("price", "amount") else value
            for name, value in values.items()
        }
        buttons: Any = None
        if text in ("generating", "delivered"):
            await self._progress(values["job_id"], text, speaker)
            return
        if text in ENDS:
            await self._end_progress(values["job_id"], speaker)
        if text == "uncertain":
            job_id = values["job_id"]
            buttons = keyboard(
                [
                    (speaker.say("button_here"), f"here|{job_id}"),
                    (speaker.say("button_not_here"), f"again|{job_id}"),
                ]
            )
        elif text == "topup_asked":
            buttons = topup_buttons(speaker, values["topup_id"])
        await self._bot.send_message(
            chat_id, speaker.say(text, **shown), reply_markup=buttons, request_timeout=self._timeout
        )

    async def _end_progress(self, job_id: str, speaker: Speaker) -> None:
        """The message with which the order was confirmed no longer says that its price is held."""
        job = await self._database.jobs.get(job_id)
        if job is None or not job["progress_message"]:
            return
        status = word(STATUSES, job["status"], speaker.language)
        with contextlib.suppress(TelegramBadRequest):  # it was deleted, or says so already
            await self._bot.edit_message_text(
                speaker.say("ended", job_id=job_id, status=status),
                chat_id=speaker.chat_id,
                message_id=job["progress_message"],
                request_timeout=self._timeout,
            )

    async def _progress(self, job_id: str, text: str, speaker: Speaker) -> None:
        """The message with which the order was confirmed says how far it is."""
        job = await self._database.jobs.get(job_id)
        if job is None or not job["progress_message"] or job["status"] != text:
            return
        await self._bot.edit_message_text(
            speaker.say(text, job_id=job_id),
            chat_id=speaker.chat_id,
            message_id=job["progress_message"],
            request_timeout=self._timeout,
        )
