"""The menu and what only looks: every instance answers these, ACTIVE or not."""

from aiogram import F, Router
from aiogram.filters import Command, CommandStart
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message

from imagebot.accounts import LANGUAGES
from imagebot.handlers.context import Context, Speaker, keyboard, show, told
from imagebot.lifecycle import UNDER_WAY, Status
from imagebot.texts import KINDS, STATUSES, word

COMMANDS = ("start", "menu", "help", "balance", "status", "history")
BUTTONS = ("menu", "balance", "status", "history")
"""The allow-list of a PASSIVE instance."""

Event = Message | CallbackQuery


def router() -> Router:
    made = Router(name="menu")
    for handler, commands in (
        (menu, ("menu",)),
        (helped, ("help",)),
        (balance, ("balance",)),
        (status, ("status",)),
        (history, ("history",)),
        (languages, ("language",)),
    ):
        made.message.register(handler, Command(*commands))
    made.message.register(menu, CommandStart())
    for name, handler in (("menu", menu), ("balance", balance), ("status", status), ("history", history)):
        made.callback_query.register(handler, F.data == name)
    made.callback_query.register(speak, F.data.startswith("language|"))
    return made


async def menu(event: Event, context: Context, speaker: Speaker) -> None:
    """What can be done, and the balance."""
    amount, _ = await context.database.accounts.balance(speaker.user_id)
    other = LANGUAGES[1 - LANGUAGES.index(speaker.language)]
    buttons = keyboard(
        [(speaker.say("button_new"), "new")],
        [(speaker.say("button_balance"), "balance"), (speaker.say("button_topup"), "topup")],
        [(speaker.say("button_status"), "status"), (speaker.say("button_history"), "history")],
        [(speaker.say("button_language"), f"language|{other}")],
    )
    await show(event, speaker.say("menu", balance=context.settings.price(amount)), buttons)


async def helped(event: Message, speaker: Speaker) -> None:
    await show(event, speaker.say("help"))


async def balance(event: Event, context: Context, speaker: Speaker) -> None:
    """What can be spent, what is held, and the last entries."""
    amount, held = await context.database.accounts.balance(speaker.user_id)
    price = context.settings.price
    entries = []
    for one in await context.database.accounts.statement(speaker.user_id):
        kind = word(KINDS, one["kind"], speaker.language)
        entries.append(f"{price(one['amount'] or one['held'])}  {kind}  {one['job_id'] or ''}".rstrip())
    text = speaker.say("balance", balance=price(amount), held=price(held), entries="\n".join(entries))
    await show(event, text.rstrip(), _back(speaker, topup=True))


async def status(event: Event, context: Context, speaker: Speaker) -> None:
    """Orders that have not ended."""
    await _orders(event, context, speaker, "status", (*UNDER_WAY, Status.UNCERTAIN))


async def history(event: Event, context: Context, speaker: Speaker) -> None:
    """The last orders, with what became of them."""
    await _orders(event, context, speaker, "history", ())


async def _orders(event: Event, context: Context, speaker: Speaker, name: str, statuses: tuple[Status, ...]) -> None:
    jobs = await context.database.jobs.listed(speaker.user_id, statuses, limit=10)
    lines = [
        f"{job['job_id']} · {word(STATUSES, job['status'], speaker.language)} · {job['prompt'][:60]}" for job in jobs
    ]
    await show(event, speaker.say(name, orders="\n".join(lines) or speaker.say("no_orders")), _back(speaker))


async def languages(event: Message, speaker: Speaker) -> None:
    await show(event, speaker.say("language"), keyboard([("Русский", "language|ru"), ("English", "language|en")]))


async def speak(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """Another language from now on."""
    [chosen] = told(event, 1)
    if chosen in LANGUAGES:
        await context.database.accounts.speak(speaker.user_id, chosen)
        speaker = Speaker(speaker.user_id, speaker.chat_id, chosen, speaker.update)
    await menu(event, context, speaker)


def _back(speaker: Speaker, topup: bool = False) -> InlineKeyboardMarkup:
    first = [(speaker.say("button_topup"), "topup")] if topup else []
    return keyboard([*first, ("☰", "menu")])
