"""The inbox: what was answered is kept, once, and worked on once; events of one line in their order."""

from raceproof import Inbox
from raceproof.inbox import Arrival
from raceproof.testing.explorer import Connection, Moment, World
from raceproof.testing.explorer.promises import keeps_inbox, outcomes, rows_of, told
from tests.promises.packs.pack import Pack

INBOX = Inbox(lease=10.0)


def same_event(world: World) -> None:
    """One event, brought twice at once."""
    world.table(INBOX)

    @world.process(name="receiver", times=2)
    async def receiver(db: Connection) -> None:
        await db.receive(INBOX, Arrival("shop", "e", b"{}"))

    keeps_inbox(world, INBOX)
    world.sometimes("an event is a duplicate", lambda moment: outcomes(moment, INBOX, "duplicate"))


def event_again(world: World) -> None:
    """An event is brought again, while it is worked on and after."""
    world.table(INBOX)

    @world.before
    async def receive(db: Connection) -> None:
        await db.receive(INBOX, Arrival("shop", "e", b"{}"))

    @world.process
    async def worker(db: Connection) -> None:
        for one in await db.claim(INBOX.work):
            await db.move(INBOX.finish, one)

    @world.process
    async def receiver(db: Connection) -> None:
        await db.receive(INBOX, Arrival("shop", "e", b"{}"))

    keeps_inbox(world, INBOX)
    world.always("P8: it is never new again", lambda moment: not outcomes(moment, INBOX, "received"))
    world.sometimes("an event is done", lambda moment: outcomes(moment, INBOX.finish, "moved"))


def one_line(world: World) -> None:
    """Two events of one user, and two workers: the second event waits for the first."""
    world.table(INBOX)

    @world.before
    async def receive(db: Connection) -> None:
        for event in ("1", "2"):
            await db.receive(INBOX, Arrival("shop", event, b"{}", ordering_key="ann"))

    @world.process
    async def worker(db: Connection) -> None:
        for one in await db.claim(INBOX.work):
            await db.move(INBOX.finish, one)

    @world.process
    async def other(db: Connection) -> None:
        for one in await db.claim(INBOX.work):
            await db.release(one)

    keeps_inbox(world, INBOX)
    world.always("the second waits for the first", _in_order)
    world.sometimes("the second has its turn", lambda moment: _status(moment, "2") == "processing")
    world.sometimes("an event is given back", lambda moment: outcomes(moment, INBOX.work, "released"))


def batch_behind(world: World) -> None:
    """Two events come together, behind one that waits in their line: all are worked on in their order."""
    world.table(INBOX)

    @world.before
    async def receive(db: Connection) -> None:
        await db.receive(INBOX, Arrival("shop", "1", b"{}", ordering_key="ann"))

    @world.process
    async def receiver(db: Connection) -> None:
        await db.receive_many(INBOX, [Arrival("shop", event, b"{}", ordering_key="ann") for event in "23"])

    @world.process
    async def worker(db: Connection) -> None:
        for _ in range(3):
            for one in await db.claim(INBOX.work):
                await db.move(INBOX.finish, one)

    keeps_inbox(world, INBOX)
    world.always("P8: events of a line are worked on in their order", _one_by_one)
    world.sometimes("the last is done", lambda moment: _begun(moment) == ["1", "2", "3"])


def _begun(moment: Moment) -> list[str]:
    """The events that somebody has begun with, in the order of their claims."""
    return list(dict.fromkeys(event.answer.key[1] for _, event in told(moment, INBOX.work, "claim")))


def _one_by_one(moment: Moment) -> bool:
    begun = _begun(moment)
    return begun == ["1", "2", "3"][: len(begun)]


def _status(moment: Moment, event: str) -> str:
    return str(rows_of(moment.tables, INBOX.table, ("source", "event_id"))["shop", event]["status"])


def _in_order(moment: Moment) -> bool:
    return _status(moment, "2") == "received" or _status(moment, "1") == "done"


PACKS = [
    Pack("same-event", ("P4", "P8", "P14"), same_event),
    Pack("event-again", ("P4", "P8", "P14"), event_again),
    Pack("one-line", ("P3", "P5", "P8"), one_line),
    Pack("batch-behind", ("P3", "P8"), batch_behind),
]
