"""Scenarios to tell about, and their verdicts: one that breaks, one that holds, and one in which every text is hostile."""

import asyncio
from collections.abc import Callable
from enum import StrEnum

from raceproof import Lifecycle, move
from raceproof.declare import History
from raceproof.testing.explorer import Connection, Explored, Limits, Verdict, World, explored

HOSTILE = '<script>alert(1)</script>\x1b[31m\n end; # --> \u202e`\'"""\\'


def naive(world: World) -> None:
    """Both look, both send."""
    world.sql("CREATE TABLE pictures (id TEXT PRIMARY KEY, status TEXT)")
    world.sql("INSERT INTO pictures VALUES ('p1', 'READY')")
    send = world.effect("send")

    async def handle(db: Connection) -> None:
        [(status,)] = await db.execute("SELECT status FROM pictures WHERE id = 'p1'")
        if status == "READY":
            await send("p1")
            await db.execute("UPDATE pictures SET status = 'SENT' WHERE id = 'p1'")

    world.process(name="callback")(handle)
    world.process(name="poller")(handle)
    world.never_twice(send)


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"


class Job(Lifecycle[Status], table="jobs", key="id", revision="rev", history=History(losers=True)):
    run = move(Status.QUEUED, to=Status.RUNNING, stamp="at", sets="note")


def moved(world: World) -> None:
    """A move with a value that should not reach a terminal."""
    world.table(Job)
    world.row(Job, "j1")
    world.row(Job, "j2")

    @world.process
    async def worker(db: Connection) -> None:
        await asyncio.sleep(30)
        await db.move(Job.run, "j1", by="worker", set={"note": HOSTILE * 9})

    world.always("nothing happens", lambda moment: moment.clock < 0 or HOSTILE if moment.calls("none") else True)


def hostile(world: World) -> None:
    """Every text that can come from elsewhere does."""
    world.sql("CREATE TABLE notes (id TEXT PRIMARY KEY, said TEXT)")
    pay = world.effect(f"pay{HOSTILE}")

    @world.process
    async def worker(db: Connection) -> None:
        await db.execute("INSERT INTO notes VALUES (?, ?)", HOSTILE, HOSTILE)
        await db.execute("SELECT said FROM notes")
        await pay(HOSTILE, more=HOSTILE)

    world.always("calm", lambda moment: HOSTILE if moment.rows("notes") and moment.calls(pay) else True)


def fixed(world: World) -> None:
    """One statement decides who sends."""
    world.sql("CREATE TABLE pictures (id TEXT PRIMARY KEY, status TEXT)")
    world.sql("INSERT INTO pictures VALUES ('p1', 'READY')")
    send = world.effect("send")

    async def handle(db: Connection) -> None:
        if await db.execute("UPDATE pictures SET status = 'SENT' WHERE id = 'p1' AND status = 'READY' RETURNING id"):
            await send("p1")

    world.process(name="callback")(handle)
    world.process(name="poller")(handle)
    world.never_twice(send)


def order_only(scenario: Callable[[World], None]) -> Verdict:
    """Explored without faults."""
    return Explored(scenario, Limits(crashes=0, lost=0, errors=0, cancels=0)).explore()


def replayed(scenario: Callable[[World], None], schedule: str) -> Verdict:
    return explored(scenario).replay(schedule)
