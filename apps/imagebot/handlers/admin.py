"""For ADMIN_IDS only; to everybody else these commands do not exist."""

import hmac

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message, User

from imagebot.handlers.context import Context, Speaker, keyboard, number, show, told


def router(context: Context) -> Router:
    made = Router(name="admin")
    admins = [str(one).encode() for one in context.settings.admin_ids]

    def is_admin(event: Message | CallbackQuery) -> bool:
        user: User | None = event.from_user
        asked = str(user.id).encode() if user else b""
        return sum(hmac.compare_digest(asked, one) for one in admins) > 0

    made.message.filter(is_admin)
    made.callback_query.filter(is_admin)
    made.message.register(pending, Command("pending"))
    made.message.register(stats, Command("stats"))
    made.message.register(grant, Command("grant"))
    made.message.register(refund, Command("refund"))
    made.message.register(job, Command("job"))
    made.callback_query.register(end_topup, F.data.startswith("approve|") | F.data.startswith("reject|"))
    return made


async def pending(event: Message, context: Context, speaker: Speaker) -> None:
    """`/pending`: top-ups that wait."""
    waiting = await context.database.accounts.waiting_topups()
    if not waiting:
        await show(event, speaker.say("no_orders"))
    for one in waiting:
        topup_id = one["topup_id"]
        amount = context.settings.price(one["amount"])
        await show(
            event,
            speaker.say("topup_asked", user=one["user_id"], amount=amount, topup_id=topup_id),
            topup_buttons(speaker, topup_id),
        )


def topup_buttons(speaker: Speaker, topup_id: str) -> InlineKeyboardMarkup:
    return keyboard(
        [
            (speaker.say("button_approve"), f"approve|{topup_id}"),
            (speaker.say("button_reject"), f"reject|{topup_id}"),
        ]
    )


async def end_topup(event: CallbackQuery, context: Context, speaker: Speaker) -> None:
    """Approved or rejected, once, by whoever was first."""
    [topup_id] = told(event, 1)
    approved = (event.data or "").startswith("approve|")
    answer = await context.database.accounts.end_topup(topup_id, approved, f"admin {speaker.user_id}")
    outcome = str(getattr(answer, "status", answer.outcome))
    await show(event, speaker.say("topup_ended", topup_id=topup_id, outcome=outcome))


async def stats(event: Message, context: Context) -> None:
    """`/stats`: how many orders are where."""
    counts = await context.database.jobs.counts()
    await show(event, "\n".join(f"{name}: {number}" for name, number in sorted(counts.items())) or "-")


async def grant(event: Message, context: Context, speaker: Speaker, command: CommandObject) -> None:
    """`/grant USER AMOUNT`: money as a present, in whole units; the same message gives it once."""
    user_id, whole, *more = [number(part) for part in (command.args or "").split()] + [None, None]
    if not user_id or not whole or len(more) != 2:
        await show(event, "/grant USER AMOUNT")
        return
    by, amount = f"admin {speaker.user_id}", whole * 100
    given = await context.database.accounts.grant(user_id, amount, f"grant:{speaker.update}", by)
    price = context.settings.price(amount)
    await show(event, f"{user_id} + {price}" if given else f"{user_id}: {price} were given before")


async def refund(event: Message, context: Context, speaker: Speaker, command: CommandObject) -> None:
    """`/refund JOB REASON`."""
    job_id, _, reason = (command.args or "").partition(" ")
    if not job_id or not reason:
        await show(event, "/refund JOB REASON")
        return
    answer = await context.database.jobs.refund(job_id, f"admin {speaker.user_id}", reason)
    await show(event, str(answer))


async def job(event: Message, context: Context, command: CommandObject) -> None:
    """`/job JOB`: everything that has happened to it."""
    found = await context.database.jobs.get((command.args or "").strip())
    if found is None:
        await show(event, "/job JOB")
        return
    lines = [f"{found['job_id']} · {found['status']} · user {found['user_id']} · {found['error_text'] or ''}"]
    for one in await context.database.jobs.timeline(found["job_id"]):
        lines.append(f"{one['at']:%H:%M:%S} {one['outcome']} {one['move']} → {one['after']} by {one['actor']}")
    await show(event, "\n".join(lines)[:4000])
