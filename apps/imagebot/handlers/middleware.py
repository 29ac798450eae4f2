"""Before every handler: the button is answered at once, and the user is known."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from aiogram import BaseMiddleware
from aiogram.exceptions import TelegramAPIError
from aiogram.types import CallbackQuery, Message, TelegramObject, Update

from imagebot.handlers.context import Context, Speaker

Handler = Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]]


class AnswerAtOnce(BaseMiddleware):
    """Nobody waits for the little clock on a button; a query that is too old is no reason to do nothing."""

    async def __call__(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        if isinstance(event, CallbackQuery):
            with contextlib.suppress(TelegramAPIError):
                await event.answer()
        return await handler(event, data)


class KnownUser(BaseMiddleware):
    """Tells handlers who speaks. Ignores what comes from no user, or from a group."""

    def __init__(self, context: Context) -> None:
        self._accounts = context.database.accounts

    async def __call__(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        user = getattr(event, "from_user", None)
        message = event.message if isinstance(event, CallbackQuery) else event
        chat = message.chat if isinstance(message, Message) else None
        if user is None or user.is_bot or (chat is not None and chat.type != "private"):
            return None
        chat_id = chat.id if chat is not None else user.id
        language = await self._accounts.language_of(user.id, chat_id, user.language_code)
        update: Update = data["event_update"]
        data["speaker"] = Speaker(user.id, chat_id, language, update.update_id)
        return await handler(event, data)
