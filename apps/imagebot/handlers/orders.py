"""An order, step by step. Each press is a move: a second press finds the step made, and nothing happens twice."""

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message

from imagebot.handlers.context import Context, Speaker, keyboard, number, show, told
from imagebot.handlers.menu import Event, menu
from imagebot.lifecycle import Status
from imagebot.storage import JobRow
from imagebot.texts import STATUSES, word

LONGEST_MESSAGE = 3500
"""Characters of a description that still fit, with the price, into a message of Telegram's."""


def router() -> Router:
    made = Router(name="orders")
    made.message.register(begin, Command("new"))
    made.message.register(at_once, Command("image"))
    made.message.register(written, F.text, ~F.text.startswith("/"))
    made.message.register(unknown)
    made.callback_query.register(begin, F.data == "new")
    for name, handler in (
        ("model", model),
        ("ratio", ratio),
        ("make", make),
        ("cancel", cancel),
        ("here", here),
        ("again", again),
    ):
        made.callback_query.register(handler, F.data.startswith(f"{name}|"))
    made.callback_query.register(menu)
    return made


async def begin(event: Event, context: Context, speaker: Speaker) -> None:
    """A new order: which model?"""
    job = await context.database.jobs.begin(f"j{speaker.update}", speaker.user_id, speaker.chat_id)
    rows = [
        [
            (
                f"{_sign(context, name)} {name} · {context.settings.price(price)}",
                f"model|{job['job_id']}|{place}",
            )
        ]
        for place, (name, price) in enumerate(context.settings.models.items())
    ]
    await show(event, speaker.say("choose_model"), keyboard(*rows, _cancel(speaker, job)))


async def model(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """Which format?"""
    job_id, place = told(event, 2)
    models = dict(enumerate(context.settings.models))
    at = number(place)
    chosen = None if at is None else models.get(at)
    if chosen is not None:
        await context.database.jobs.choose_model(job_id, speaker.user_id, chosen)
    await _next(event, context, speaker, job_id)


async def ratio(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """And what is to be seen?"""
    job_id, chosen = told(event, 2)
    job = await context.database.jobs.of_user(job_id, speaker.user_id)
    if job is not None and chosen in _formats(context, job):
        await context.database.jobs.choose_ratio(job_id, speaker.user_id, chosen)
    await _next(event, context, speaker, job_id)


async def written(event: Message, context: Context, speaker: Speaker) -> None:
    """A text: the description, if an order waits for one."""
    job = await context.database.jobs.draft_of(speaker.user_id)
    if job is None or job["status"] != Status.WRITING_PROMPT:
        await (_next(event, context, speaker, job["job_id"]) if job else show(event, speaker.say("unknown")))
        return
    if job["model"] not in context.settings.models:
        await context.database.jobs.cancel(job["job_id"], speaker.user_id)
        await show(event, speaker.say("model_gone", model=job["model"]))
        await begin(event, context, speaker)
        return
    prompt = (event.text or "").strip()
    if await _fits(event, context, speaker, job["model"], prompt):
        await context.database.jobs.write_prompt(job, prompt)
        await _next(event, context, speaker, job["job_id"])


async def at_once(event: Message, context: Context, speaker: Speaker, command: CommandObject) -> None:
    """`/image a lighthouse`: the first model, a square, and only the price to confirm."""
    prompt = (command.args or "").strip()
    if not prompt:
        await show(event, speaker.say("no_prompt"))
    elif await _fits(event, context, speaker, next(iter(context.settings.models)), prompt):
        job_id = f"j{speaker.update}"
        await context.database.jobs.begin(job_id, speaker.user_id, speaker.chat_id, prompt)
        await _next(event, context, speaker, job_id)


async def _fits(event: Message, context: Context, speaker: Speaker, model: str, prompt: str) -> bool:
    longest = _longest(context, model)
    if len(prompt) <= longest:
        return True
    await show(event, speaker.say("too_long", length=len(prompt), longest=longest))
    return False


async def make(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """Confirmed: the price is held and the order stands in the queue."""
    [job_id] = told(event, 1)
    message = event.message.message_id if event.message else 0
    outcome = await context.database.jobs.confirm(job_id, speaker.user_id, message)
    job = await context.database.jobs.of_user(job_id, speaker.user_id)
    if outcome == "gone" or job is None:
        await show(event, speaker.say("gone"))
    elif outcome == "not enough":
        amount, _ = await context.database.accounts.balance(speaker.user_id)
        price = context.settings.price
        text = speaker.say("not_enough", price=price(job["price"]), balance=price(amount))
        buttons = keyboard(_make(speaker, job), [(speaker.say("button_topup"), "topup")])
        await show(event, text, buttons)
    elif job["status"] in (Status.QUEUED, Status.CREATING):
        text = speaker.say("accepted", job_id=job_id, price=context.settings.price(job["price"]))
        await show(event, text, _status(speaker))
    else:
        await show(event, f"{job_id} · {word(STATUSES, job['status'], speaker.language)}", _status(speaker))


async def cancel(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """The draft is dropped; an order that is paid goes on."""
    [job_id] = told(event, 1)
    answer = await context.database.jobs.cancel(job_id, speaker.user_id)
    await show(event, speaker.say("cancelled" if answer.reached else "gone"))


async def here(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """An uncertain picture is there after all: it is paid now."""
    await _settle(event, context, speaker, arrived=True)


async def again(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """An uncertain picture is not there: it is sent once more."""
    await _settle(event, context, speaker, arrived=False)


async def _settle(event: CallbackQuery, context: Context, speaker: Speaker, arrived: bool) -> None:
    job = await context.database.jobs.of_user(told(event, 1)[0], speaker.user_id)
    if job is None:
        await show(event, speaker.say("gone"))
        return
    won = await context.database.storage.resolve(job, arrived, f"user {speaker.user_id}")
    if won and not arrived:
        await context.database.jobs.watch_again(job["job_id"])
    await show(event, speaker.say("resolved" if arrived or not won else "sent_again", job_id=job["job_id"]))


async def unknown(event: Message, speaker: Speaker) -> None:
    await show(event, speaker.say("unknown"))


async def _next(event: Event, context: Context, speaker: Speaker, job_id: str) -> None:
    """Show the step that the draft is at, whoever has moved it there."""
    job = await context.database.jobs.of_user(job_id, speaker.user_id)
    status = job["status"] if job else None
    if job is None or status in (Status.CANCELLED, None):
        await show(event, speaker.say("gone"))
    elif status == Status.CHOOSING_MODEL:
        await begin(event, context, Speaker(speaker.user_id, speaker.chat_id, speaker.language, int(job_id[1:])))
    elif status == Status.CHOOSING_RATIO:
        formats = [(one, f"ratio|{job_id}|{one}") for one in _formats(context, job)]
        text = speaker.say("choose_ratio", model=job["model"])
        await show(event, text, keyboard(formats, _cancel(speaker, job)))
    elif status == Status.WRITING_PROMPT:
        longest = _longest(context, job["model"])
        text = speaker.say("write_prompt", ratio=job["aspect_ratio"], longest=longest)
        await show(event, text, keyboard(_cancel(speaker, job)))
    elif status == Status.CONFIRMING:
        amount, _ = await context.database.accounts.balance(speaker.user_id)
        price = context.settings.price
        told_prices = {"price": price(job["price"]), "balance": price(amount)}
        text = speaker.say(
            "confirm", prompt=job["prompt"], model=job["model"], ratio=job["aspect_ratio"], **told_prices
        )
        await show(event, text, keyboard(_make(speaker, job), _cancel(speaker, job)))


def _formats(context: Context, job: JobRow) -> tuple[str, ...]:
    model = context.settings.model(job["model"] or "")
    return model.formats if model else ()


def _longest(context: Context, name: str) -> int:
    model = context.settings.model(name)
    return min(model.longest_prompt if model else LONGEST_MESSAGE, LONGEST_MESSAGE)


def _sign(context: Context, name: str) -> str:
    model = context.settings.model(name)
    return "🎬" if model and model.kind == "video" else "🎨"


def _make(speaker: Speaker, job: JobRow) -> list[tuple[str, str]]:
    return [(speaker.say("button_make"), f"make|{job['job_id']}")]


def _cancel(speaker: Speaker, job: JobRow) -> list[tuple[str, str]]:
    return [(speaker.say("button_cancel"), f"cancel|{job['job_id']}")]


def _status(speaker: Speaker) -> InlineKeyboardMarkup:
    return keyboard([(speaker.say("button_status"), "status")])
