"""Attempts: one that is open for an owner, whoever starts another one, and however."""

import asyncio
from enum import StrEnum

from raceproof import Attempts, Lifecycle, Started, move
from raceproof.attempts.request import WhenOpen
from raceproof.testing.explorer import Connection, World
from raceproof.testing.explorer.promises import keeps_attempts, outcomes, told
from tests.promises.packs.pack import Pack


class Status(StrEnum):
    OPEN = "OPEN"
    PAID = "PAID"
    SUPERSEDED = "SUPERSEDED"


class Checkout(Lifecycle[Status], table="checkouts"):
    pay = move(Status.OPEN, to=Status.PAID)
    supersede = move(Status.OPEN, to=Status.SUPERSEDED, sets="successor")


class Recorded(Lifecycle[Status], table="recorded", revision="rev", history="recorded_history"):
    pay = move(Status.OPEN, to=Status.PAID)
    supersede = move(Status.OPEN, to=Status.SUPERSEDED, sets="successor")


PLAIN = Attempts(Checkout, "customer", Checkout.supersede, link="successor")
RECORDED = Attempts(Recorded, "customer", Recorded.supersede, link="successor")
TIMED = Attempts(Checkout, "customer", Checkout.supersede, started="began_at", ttl=10.0)


def _two_starters(world: World, attempts: Attempts, when_open: WhenOpen) -> None:
    """Each starts an attempt of its own for the same customer, and pays with it."""
    world.table(attempts)
    pay = attempts.lifecycle.moves["pay"]

    async def check_out(db: Connection, key: str) -> None:
        if isinstance(await db.start_attempt(attempts, "ann", key, when_open=when_open), Started):
            await db.move(pay, key)

    @world.process
    async def phone(db: Connection) -> None:
        await check_out(db, "p")

    @world.process
    async def laptop(db: Connection) -> None:
        await check_out(db, "l")

    keeps_attempts(world, attempts)
    world.sometimes("an attempt is paid", lambda moment: outcomes(moment, pay, "moved"))
    world.sometimes("a start is unknown", lambda moment: outcomes(moment, attempts, "unknown"))


def superseded(world: World) -> None:
    """A new attempt ends the open one, which can write nothing more."""
    _two_starters(world, PLAIN, "supersede")
    world.sometimes("one that was superseded cannot pay", lambda moment: outcomes(moment, Checkout.pay, "refused"))


def superseded_with_history(world: World) -> None:
    """The same with a revision and a history."""
    _two_starters(world, RECORDED, "supersede")
    world.sometimes("one that was superseded cannot pay", lambda moment: outcomes(moment, Recorded.pay, "refused"))


def kept(world: World) -> None:
    """The open attempt stays, and who comes later gets its key."""
    _two_starters(world, PLAIN, "keep")
    world.sometimes("an open one is kept", lambda moment: outcomes(moment, PLAIN, "already active"))


def rejected(world: World) -> None:
    """The open attempt stays, and who comes later is told so."""
    _two_starters(world, PLAIN, "reject")
    world.sometimes("a new one is rejected", lambda moment: outcomes(moment, PLAIN, "rejected"))


def started_again(world: World) -> None:
    """The same start, asked again: it is the same attempt, or it has ended and stays so."""
    world.table(PLAIN)

    @world.process
    async def phone(db: Connection) -> None:
        await db.start_attempt(PLAIN, "ann", "p")
        await db.start_attempt(PLAIN, "ann", "p")

    @world.process
    async def laptop(db: Connection) -> None:
        await db.start_attempt(PLAIN, "ann", "l")

    keeps_attempts(world, PLAIN)
    world.sometimes(
        "a start is replayed", lambda moment: any(_replayed(one) for _, one in told(moment, PLAIN, "start"))
    )
    world.sometimes("one that has ended is not begun anew", lambda moment: outcomes(moment, PLAIN, "rejected"))


def _replayed(event: object) -> bool:
    return bool(getattr(getattr(event, "answer", None), "replayed", False))


def timed(world: World) -> None:
    """An open attempt counts for some time only; then the next one is the owner's."""
    world.table(TIMED)

    @world.process
    async def phone(db: Connection) -> None:
        await db.start_attempt(TIMED, "ann", "p")
        await db.move(Checkout.pay, "p")

    @world.process
    async def laptop(db: Connection) -> None:
        await asyncio.sleep(10)
        await db.start_attempt(TIMED, "ann", "l", when_open="keep")

    keeps_attempts(world, TIMED)
    world.sometimes("an open one is kept", lambda moment: outcomes(moment, TIMED, "already active"))
    world.sometimes(
        "one whose time is over is followed",
        lambda moment: any(getattr(one.answer, "superseded", None) for _, one in told(moment, TIMED, "start")),
    )


PACKS = [
    Pack("superseded", ("P1", "P2", "P9", "P14"), superseded),
    Pack("superseded-with-history", ("P1", "P2", "P9", "P14"), superseded_with_history),
    Pack("kept", ("P9", "P14"), kept),
    Pack("rejected", ("P9", "P14"), rejected),
    Pack("started-again", ("P9", "P12"), started_again),
    Pack("timed", ("P9",), timed),
]
