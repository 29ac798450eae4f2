"""Money in: the user says how much, an admin approves, and it is added once."""

from aiogram import F, Router
from aiogram.filters import Command
from aiogram.types import CallbackQuery

from imagebot.accounts import AMOUNTS
from imagebot.handlers.context import Context, Speaker, keyboard, number, show, told
from imagebot.handlers.menu import Event


def router() -> Router:
    made = Router(name="topups")
    made.message.register(topup, Command("topup"))
    made.callback_query.register(topup, F.data == "topup")
    made.callback_query.register(ask, F.data.startswith("topup|"))
    return made


async def topup(event: Event, context: Context, speaker: Speaker) -> None:
    """How much?"""
    topup_id = f"t{speaker.update}"
    await context.database.accounts.begin_topup(topup_id, speaker.user_id)
    amounts = [(context.settings.price(one), f"topup|{topup_id}|{one}") for one in AMOUNTS]
    await show(event, speaker.say("topup"), keyboard(amounts, [("☰", "menu")]))


async def ask(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """The amount is chosen; the admins get a message."""
    topup_id, chosen = told(event, 2)
    amount = number(chosen)
    if amount is None or amount not in AMOUNTS:
        await show(event, speaker.say("gone"))
        return
    answer = await context.database.accounts.ask_topup(topup_id, speaker.user_id, amount)
    name = "topup_requested" if answer.reached else "gone"
    await show(event, speaker.say(name, topup_id=topup_id, amount=context.settings.price(amount)))
