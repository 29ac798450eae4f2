"""A lost payment: an answer that is given before anything is kept."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from gallery.exhibit import Exhibit
from raceproof import Inbox
from raceproof.inbox import Arrival
from raceproof.testing.explorer import Call, Connection, Effect, Limits, Moment, World

EXHIBIT = Exhibit(
    title="A lost payment",
    story=(
        "A user pays 100 in the chat. Telegram tells the bot, the bot answers 200 at once and puts the update into a "
        "queue in its memory; a deploy ends the process a moment later. Telegram never sends an update again that was "
        "answered with 200, so the money is gone and the balance stays at 0."
    ),
    follows="a field note, “Architecture”: the fast-ack queue manager.",
    quoted="""\
→ UpdateQueueManager (fast-ack 200 OK) → asyncio.Queue
→ Worker tasks → Dispatcher.feed_update() → Handlers

- Fast-ack pattern: HTTP 200 OK within 500ms
- asyncio.Queue (max size 100)
- 4 worker tasks consume from queue → Dispatcher.feed_update()""",
    right=(
        "To answer quickly is right: the work may take minutes and Telegram does not wait. While nobody dies and "
        "every answer arrives, each payment is booked once."
    ),
    holds=Limits(deviations=3, crashes=0, lost=0, errors=0, cancels=0, seconds=60.0),
    also="instance*2 instance:fails instance*4",
    schedule="instance*2 instance:dies-after instance*2",
    why=(
        "The 200 says “you can forget it”, but the only copy is in the memory of a process that may die. The other "
        "way round it fails too: if the 200 gets lost, Telegram brings the update again, and the queue books it "
        "twice."
    ),
    answer=(
        "`db.receive` makes the update durable before the 200, which is as quick; the same update again is a "
        "duplicate and nothing happens. Whoever claims it books it in one transaction with the move that finishes it, "
        "so it is booked exactly once however often it was brought, claimed or given up."
    ),
)


# gallery: stage
def stage(world: World) -> Effect:
    """One payment of 100. Telegram brings an update until it has heard 200 for it, and then never again."""
    world.sql("""
        CREATE TABLE user_balances (user_id TEXT PRIMARY KEY, balance INTEGER);
        INSERT INTO user_balances VALUES ('ann', 0)
    """)

    def brings(calls: Sequence[Call]) -> list[int]:
        return [] if any(call.key == "200 for update" for call in calls) else [7]

    telegram = world.effect("telegram", brings)
    world.always("booked once at most", lambda moment: moment.row("user_balances")["balance"] <= 100)
    return telegram


BOOK = "UPDATE user_balances SET balance = balance + 100 WHERE user_id = 'ann'"


# gallery: naive
def naive(world: World) -> None:
    telegram = stage(world)

    async def feed_updates(db: Connection, queue: "asyncio.Queue[int]") -> None:
        while True:
            await queue.get()
            await db.execute(BOOK)
            queue.task_done()

    @world.process
    async def instance(db: Connection) -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=100)
        worker = asyncio.create_task(feed_updates(db, queue))
        while updates := await telegram("any news?"):
            for update in updates:
                queue.put_nowait(update)
                with suppress(OSError):  # Telegram hung up
                    await telegram("200 for update", id=update)
        await queue.join()
        worker.cancel()

    world.eventually("the payment is booked", lambda moment: moment.row("user_balances")["balance"] == 100)


# gallery: guarded
inbox = Inbox(lease=60)


def guarded(world: World) -> None:
    telegram = stage(world)
    world.table(inbox)

    @world.process
    async def instance(db: Connection) -> None:
        for update in await telegram("any news?"):
            await db.receive(inbox, Arrival("telegram", str(update), b"{}"))
            with suppress(OSError):
                await telegram("200 for update", id=update)
        for claim in await db.claim(inbox.work):
            async with db.transaction():
                if (await db.move(inbox.finish, claim)).won:
                    await db.execute(BOOK)

    world.eventually("the payment is booked, or waits in the inbox", booked_or_waiting)


def booked_or_waiting(moment: Moment) -> object:
    waiting = [event for event in moment.rows(inbox.table) if event["status"] in ("received", "processing")]
    return (moment.row("user_balances")["balance"] == 100) != bool(waiting)


# gallery: end
