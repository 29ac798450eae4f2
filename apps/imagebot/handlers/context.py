"""What handlers are given: the settings, the database, and who is speaking."""

from dataclasses import dataclass
from typing import Any

from aiogram.exceptions import TelegramBadRequest
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message

from imagebot.services import DatabaseService
from imagebot.settings import Settings
from imagebot.texts import say


@dataclass(frozen=True, slots=True)
class Context:
    """The same for all updates."""

    settings: Settings
    database: DatabaseService


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who sent the update, in which chat and language; `update` is its number."""

    user_id: int
    chat_id: int
    language: str
    update: int

    def say(self, name: str, **values: Any) -> str:
        return say(self.language, name, **values)


def keyboard(*rows: list[tuple[str, str]]) -> InlineKeyboardMarkup:
    """Rows of buttons, each a text and what it sends."""
    return InlineKeyboardMarkup(
        inline_keyboard=[[InlineKeyboardButton(text=text, callback_data=data) for text, data in row] for row in rows]
    )


async def show(event: Message | CallbackQuery, text: str, markup: InlineKeyboardMarkup | None = None) -> None:
    """Answer a message with a new one, and a button by changing its own; to say the same again is no error."""
    if isinstance(event, Message):
        await event.answer(text, reply_markup=markup)
        return
    if not isinstance(event.message, Message):
        return
    try:
        await event.message.edit_text(text, reply_markup=markup)
    except TelegramBadRequest as error:
        if "not modified" not in error.message:
            await event.message.answer(text, reply_markup=markup)


def told(query: CallbackQuery, parts: int) -> list[str]:
    """So many parts of what a button sends, after its name. A modified client may send more, fewer, or anything."""
    found = (query.data or "").split("|")[1 : parts + 1]
    return found + [""] * (parts - len(found))


def number(text: str) -> int | None:
    """The number that a user wrote; None if it is not one. `isdigit` would let ² through."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
