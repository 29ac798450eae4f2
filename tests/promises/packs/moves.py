"""Moves: of identical ones one is won, whatever happens on the way; a call asked again does nothing twice."""

import asyncio
from enum import StrEnum

from raceproof import Lifecycle, column, move
from raceproof.declare import History
from raceproof.kernel.events import Event
from raceproof.testing.explorer import Connection, Moment, World
from raceproof.testing.explorer.promises import keeps_calls, keeps_moves, outcomes, writes_once
from raceproof.testing.explorer.world import Check
from tests.promises.packs.pack import SQL, Pack


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"
    DONE = "DONE"
    FAILED = "FAILED"


class Command(Lifecycle[Status], table="commands"):
    send = move(Status.QUEUED, to=Status.SENT)
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)
    finish = move(Status.SENT, Status.ACK, to=Status.DONE)
    fail = move(Status.QUEUED, Status.SENT, to=Status.FAILED)


class Recorded(Lifecycle[Status], table="recorded", revision="rev", history=History(losers=True)):
    send = move(Status.QUEUED, to=Status.SENT, stamp="sent_at")
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)
    finish = move(Status.SENT, Status.ACK, to=Status.DONE, sets="result")
    fail = move(Status.QUEUED, Status.SENT, to=Status.FAILED)


class Light(StrEnum):
    OFF = "OFF"
    ON = "ON"


class Lamp(Lifecycle[Light], table="lamps", history="lamp_history"):
    """Goes round, so that a call asked again could move it again."""

    on = move(Light.OFF, to=Light.ON)
    off = move(Light.ON, to=Light.OFF)


def same_move(world: World) -> None:
    """Two identical senders, on a row without revision or history."""
    world.table(Command)
    world.row(Command, "c")

    @world.process(name="sender", times=2)
    async def sender(db: Connection) -> None:
        if (await db.move(Command.send, "c")).won:
            await db.move(Command.finish, "c")

    keeps_moves(world, Command)
    for outcome in ("moved", "already", "refused", "unknown"):
        world.sometimes(f"a move is {outcome}", _told(Command.spec, outcome))


def other_moves(world: World) -> None:
    """Moves that exclude each other, on a row with a revision and a history with losers."""
    world.table(Recorded)
    world.row(Recorded, "c")

    @world.process
    async def sender(db: Connection) -> None:
        answer = await db.move(Recorded.send, "c")
        if answer.won:
            await db.move(Recorded.finish, "c", set={"result": "sent"}, revision=answer.revision)

    @world.process
    async def listener(db: Connection) -> None:
        if not (await db.move(Recorded.ack, "c")).reached:
            await db.move(Recorded.fail, "c")

    keeps_moves(world, Recorded)
    keeps_calls(world, Recorded)
    world.always("P4: only the revision that was seen is finished", _finished_as_seen)
    world.sometimes("a revision is out of date", lambda moment: any(_unmet(event) for _, event in moment.told))
    world.sometimes("a move is refused", _told(Recorded.spec, "refused"))


def _finished_as_seen(moment: Moment) -> bool:
    """The sender has seen the row at SENT; after an acknowledgement its revision is another."""
    return not any(
        event.move == "finish" and event.outcome == "moved" and str(event.answer.before) == "ACK"  # type: ignore[union-attr]
        for _, event in moment.told
    )


def _unmet(event: Event) -> bool:
    return bool(getattr(event.answer, "unmet", ()))


def many_moves(world: World) -> None:
    """A bulk by keys, with a guard, against a bulk that finds its rows itself."""
    world.table(Command, tries="number")
    world.row(Command, "a", tries=0)
    world.row(Command, "b", tries=5)

    @world.process
    async def sending(db: Connection) -> None:
        await db.move_many(Command.send, ["a", "b"])
        await db.move_many(Command.finish, ["b", "a"], where=column("tries") < 5)

    @world.process
    async def failing(db: Connection) -> None:
        await db.move_many(Command.fail, ["a", "b"], where=column("tries") >= 5)

    keeps_moves(world, Command)
    world.always("P4: a guard of many is kept", _guarded)
    world.sometimes("one of many is refused", _told(Command.spec, "refused"))
    world.sometimes("one of many has moved", lambda moment: moment.row("commands", id="a")["status"] == "DONE")


def _guarded(moment: Moment) -> bool:
    few, many = (moment.row("commands", id=key)["status"] for key in ("a", "b"))
    return bool(many != "DONE" and few != "FAILED")


def repeated_call(world: World) -> None:
    """A lamp is switched on once by a call that is repeated until its end is known; somebody switches it off."""
    world.table(Lamp)
    world.row(Lamp, "lamp")

    @world.process
    async def caller(db: Connection) -> None:
        answer = await db.move(Lamp.on, "lamp", call="once")
        while answer.outcome == "unknown":
            await asyncio.sleep(1)
            answer = await db.move(Lamp.on, "lamp", call="once")
        assert answer.won, f"nobody else switches it on, and yet: {answer}"

    @world.process
    async def sleeper(db: Connection) -> None:
        if not (await db.move(Lamp.off, "lamp")).reached:
            await db.move(Lamp.off, "lamp")

    keeps_moves(world, Lamp)
    world.eventually(
        "P12: switched off, it stays off",
        lambda moment: not outcomes(moment, Lamp.off, "moved") or moment.row("lamps", id="lamp")["status"] == "OFF",
    )
    world.sometimes("a call is unknown", _told(Lamp.on, "unknown"))
    world.sometimes(
        "a call is replayed after the row has come back",
        lambda moment: any(
            getattr(event.answer, "replayed", False) and moment.row("lamps", id="lamp")["status"] == "OFF"
            for _, event in moment.told
        ),
    )


def one_transaction(world: World) -> None:
    """An entry in a ledger and the move that it belongs to, in one transaction of the caller's."""
    world.table(Command)
    world.row(Command, "c")
    world.sql("CREATE TABLE ledger (entry TEXT)")

    @world.process(name="bookkeeper", times=2)
    async def bookkeeper(db: Connection) -> None:
        async with db.transaction():
            if (await db.move(Command.send, "c")).won:
                await db.execute("INSERT INTO ledger VALUES (?)", "c")

    keeps_moves(world, Command)
    writes_once(world, Command, "SENT", "ledger", "entry")
    world.eventually("P6: it is written", lambda moment: len(moment.rows("ledger")) == 1)
    world.sometimes("somebody comes too late", lambda moment: len(moment.told) > 1)


def _told(declared: object, outcome: str) -> Check:
    return lambda moment: outcomes(moment, declared, outcome)


PACKS = [
    Pack("same-move", ("P1", "P2", "P14"), same_move),
    Pack("other-moves", ("P1", "P2", "P4", "P14"), other_moves, grounds=SQL),
    Pack("many-moves", ("P1", "P2", "P4", "P14"), many_moves),
    Pack("repeated-call", ("P1", "P12"), repeated_call),
    Pack("one-transaction", ("P1", "P6", "P14"), one_transaction, grounds=SQL),
]
