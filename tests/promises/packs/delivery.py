"""Deliveries: sent again only when nobody knows how the last try ended, with the same key; or never, if they are held."""

import asyncio
from contextlib import suppress
from typing import Any

from raceproof import Delivery, SendPermit, SendRefused
from raceproof.deliveries import DeliveryState, NotSent
from raceproof.testing.explorer import Connection, Effect, EffectRefused, Limits, Moment, World
from raceproof.testing.explorer.promises import delivers, keeps_deliveries, outcomes, told
from tests.promises.packs.pack import SQL, Pack

STALE = 10.0

RESENT = Delivery("resent", "letters", stale=STALE)
NAMED = Delivery("named", "letters", state="state", error="error", stale=STALE)
HELD = Delivery("held", "letters", state="state", stale=STALE, policy="hold")
HELD_PLAINLY = Delivery("held plainly", "letters", stale=STALE, policy="hold")
PROBED = Delivery("probed", "letters", state="state", stale=STALE, policy="probe")


async def _send(send: Effect, permit: SendPermit) -> None:
    try:
        await send(permit.key, idempotency_key=permit.idempotency_key)
    except EffectRefused as error:
        raise NotSent(str(error)) from error


def _letter(world: World, delivery: Delivery) -> Effect:
    """One row to be sent, and what must hold for it."""
    world.table(delivery)
    world.row(delivery, "m")
    send = world.effect("send")
    keeps_deliveries(world, delivery, send)
    world.sometimes("somebody else sends", lambda moment: outcomes(moment, delivery, "sending", "deliver"))
    return send


def _senders(world: World, delivery: Delivery) -> None:
    """Two senders of one row, each once."""
    send = _letter(world, delivery)

    @world.process(name="sender", times=2)
    async def sender(db: Connection) -> None:
        async with db.deliver_once(delivery, "m") as permit:
            if isinstance(permit, SendPermit):
                await _send(send, permit)


def resent(world: World) -> None:
    """Two timestamps; a sender that is gone is followed by another."""
    _senders(world, RESENT)
    world.sometimes("a letter is sent again, in doubt", _doubted)
    world.sometimes("a late sender is told so", lambda moment: outcomes(moment, RESENT, "lost", "mark"))


def named(world: World) -> None:
    """States by name: an unknown end is followed by another try at once."""
    _senders(world, NAMED)
    world.sometimes("a letter is sent again, in doubt", _doubted)
    world.sometimes("nobody knows the end", lambda moment: outcomes(moment, NAMED, "uncertain", "mark"))
    world.sometimes("it is known that nothing was sent", lambda moment: outcomes(moment, NAMED, "failed", "mark"))


def held(world: World) -> None:
    """An unknown end is held for a person, so nothing is ever sent twice."""
    _senders(world, HELD)
    world.sometimes("a letter is held", lambda moment: outcomes(moment, HELD, "uncertain", "deliver"))


def held_plainly(world: World) -> None:
    """The same with two timestamps: who is gone for long enough has an unknown end."""
    _senders(world, HELD_PLAINLY)
    world.sometimes("a letter is held", lambda moment: outcomes(moment, HELD_PLAINLY, "uncertain", "deliver"))


def probed(world: World) -> None:
    """Whoever is in doubt asks the receiver first."""
    world.table(PROBED)
    world.row(PROBED, "m")
    receiver = world.effect("receiver", lambda calls: any(call.key == "m" for call in calls))

    async def has_arrived(permit: SendPermit) -> bool:
        return bool(await receiver(("has", permit.key)))

    @world.process(name="sender", times=2)
    async def sender(db: Connection) -> None:
        async with db.deliver_once(PROBED, "m", probe=has_arrived) as permit:
            if isinstance(permit, SendPermit):
                await _send(receiver, permit)

    keeps_deliveries(world, PROBED, receiver)
    world.sometimes(
        "what has arrived is not sent again",
        lambda moment: (
            outcomes(moment, PROBED, "delivered", "mark")
            and any(isinstance(call.key, tuple) for call in moment.calls(receiver))
        ),
    )


def reserved(world: World) -> None:
    """A turn that is reserved before it is used: who is gone before the send has surely sent nothing."""
    send = _letter(world, HELD)

    @world.process(restarts=False)
    async def passer(db: Connection) -> None:
        await db.begin_delivery(HELD, "m", reserve=True)

    @world.process
    async def sender(db: Connection) -> None:
        sent = False
        with suppress(NotSent):
            async with db.deliver_once(HELD, "m", reserve=True) as permit:
                if isinstance(permit, SendPermit) and not isinstance(await db.sending(permit), SendPermit):
                    raise NotSent
                if isinstance(permit, SendPermit):
                    await _send(send, permit)
                    sent = True
        found = await db.begin_delivery(HELD, "m") if sent else None
        assert not isinstance(found, SendRefused) or found.state is DeliveryState.DELIVERED, f"sent, yet: {found}"

    world.sometimes(
        "who only had reserved is followed without doubt",
        lambda moment: sum(event.outcome == "won" for _, event in told(moment, HELD, "deliver")) > 1,
    )


def resolved(world: World) -> None:
    """A person looks at what is held, and says that it has arrived or not."""
    world.table(HELD)
    world.row(HELD, "m")
    mailbox = world.effect("mailbox", lambda calls: any(call.key == "m" for call in calls))
    keeps_deliveries(world, HELD, mailbox)

    @world.process(restarts=False)
    async def sender(db: Connection) -> None:
        async with db.deliver_once(HELD, "m") as permit:
            if isinstance(permit, SendPermit):
                await _send(mailbox, permit)

    @world.process
    async def person(db: Connection) -> None:
        await asyncio.sleep(10 * STALE)  # until no sender can be at it any more
        for one in await db.deliveries(HELD):
            if one.state == DeliveryState.UNCERTAIN:
                await db.resolve(HELD, one.key, arrived=await mailbox(("look", one.key)))

    world.sometimes("it had arrived", lambda moment: outcomes(moment, HELD, "delivered", "resolve"))
    world.sometimes("it had not arrived", lambda moment: outcomes(moment, HELD, "failed", "resolve"))


def late_sender(world: World) -> None:
    """A turn is taken over from a sender that stands still: what that one says about the end counts no more."""
    send = _letter(world, RESENT)

    @world.process
    async def sender(db: Connection) -> None:
        async with db.deliver_once(RESENT, "m") as permit:
            if isinstance(permit, SendPermit):
                await _send(send, permit)

    @world.process
    async def impatient(db: Connection) -> None:
        await asyncio.sleep(STALE)
        await db.begin_delivery(RESENT, "m")

    world.sometimes("a late sender is told so", lambda moment: outcomes(moment, RESENT, "lost", "mark"))


def sent_in_the_end(world: World) -> None:
    """One takes a turn and is never seen again; another goes on until the letter is delivered."""
    send = _letter(world, RESENT)

    @world.process(restarts=False)
    async def passer(db: Connection) -> None:
        await db.begin_delivery(RESENT, "m")

    @world.process
    async def sender(db: Connection) -> None:
        for _ in range(4):
            async with db.deliver_once(RESENT, "m") as permit:
                if isinstance(permit, SendPermit):
                    await _send(send, permit)
            if isinstance(permit, SendRefused) and permit.state is DeliveryState.DELIVERED:
                return
            await asyncio.sleep(STALE)

    delivers(world, RESENT, send)


def _doubted(moment: Moment) -> bool:
    return any(_in_doubt(event.answer) for _, event in moment.told)


def _in_doubt(answer: Any) -> bool:
    return bool(getattr(answer, "in_doubt", False))


PACKS = [
    Pack("resent", ("P4", "P5", "P7", "P14"), resent),
    Pack("named", ("P5", "P7", "P14"), named),
    Pack("held", ("P7", "P14"), held),
    Pack("held-plainly", ("P7", "P14"), held_plainly),
    Pack("probed", ("P7",), probed),
    Pack("reserved", ("P5", "P7"), reserved),
    Pack("resolved", ("P7",), resolved, grounds=SQL),  # Redis cannot search for what is under way
    Pack("late-sender", ("P4", "P5", "P7"), late_sender),
    Pack("sent-in-the-end", ("P7", "P13"), sent_in_the_end, Limits(seconds=240.0)),
]
