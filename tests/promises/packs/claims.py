"""Claims: one holder at a time, by the store's clock; a late one can write nothing; nothing stays stuck."""

import asyncio
from contextlib import suppress
from enum import StrEnum
from typing import Any

from raceproof import Backoff, Claim, Lifecycle, claimable, move
from raceproof.claims import TextMarker, TimestampClaim
from raceproof.declare.spec import Claimable, Move
from raceproof.testing.explorer import Connection, Limits, Moment, World
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.promises import (
    at_each_step,
    keeps_claims,
    keeps_moves,
    number,
    outcomes,
    recovers,
    seconds,
    told,
    writes_once,
)
from tests.promises.packs.pack import SQL, Pack

LEASE = 10.0


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DEAD = "DEAD"


class Job(Lifecycle[Status], table="jobs"):
    begin = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)
    drop = move(Status.QUEUED, to=Status.DEAD)
    work = claimable(begin, lease=LEASE)


class Recorded(Lifecycle[Status], table="recorded", revision="rev", history="recorded_history"):
    begin = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)
    drop = move(Status.QUEUED, to=Status.DEAD)
    work = claimable(begin, lease=LEASE)


class Stamped(Lifecycle[Status], table="stamped"):
    finish = move(Status.QUEUED, to=Status.DONE)
    drop = move(Status.QUEUED, Status.RUNNING, to=Status.DEAD)
    pause = move(Status.QUEUED, to=Status.RUNNING)
    work = claimable(at=Status.QUEUED, lease=LEASE, form=TimestampClaim("taken_at"))


class DeliveryRecorded(Lifecycle[Status], table="marked"):
    finish = move(Status.QUEUED, to=Status.DONE)
    drop = move(Status.QUEUED, Status.RUNNING, to=Status.DEAD)
    pause = move(Status.QUEUED, to=Status.RUNNING)
    work = claimable(at=Status.QUEUED, lease=LEASE, form=TextMarker("error", "WORK"))


class Tried(Lifecycle[Status], table="tried"):
    """With a single attempt, and an end for rows that have had it."""

    begin = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)
    retry = move(Status.RUNNING, to=Status.QUEUED)
    give_up = move(Status.QUEUED, Status.RUNNING, to=Status.DEAD)
    work = claimable(begin, lease=LEASE, back=retry, dead_letter=give_up, attempts="tries", max_attempts=1)


SHOPS = {"ann": "apple", "bob": "bread"}


class Sold(Lifecycle[Status], table="sold", tenant="shop"):
    """Rows of several shops."""

    begin = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)
    drop = move(Status.QUEUED, to=Status.DEAD)
    work = claimable(begin, lease=LEASE)


class Rested(Lifecycle[Status], table="rested"):
    """With a rest after a failure."""

    begin = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)
    retry = move(Status.RUNNING, to=Status.QUEUED)
    drop = move(Status.QUEUED, to=Status.DEAD)
    work = claimable(begin, lease=LEASE, back=retry, not_before="rests_until", backoff=Backoff(4, 4))


class Lined(Lifecycle[Status], table="lined"):
    """Rows of one owner, one after the other."""

    begin = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)
    drop = move(Status.QUEUED, to=Status.DEAD)
    work = claimable(begin, lease=LEASE, ordering_key="owner")


def one_job(world: World, claim: Claimable[Any]) -> None:
    """One row that waits, and what must hold for it."""
    world.table(claim.lifecycle)
    world.row(claim.lifecycle, "j")

    @world.before
    async def offer(db: Connection) -> None:
        await db.offer(claim, ["j"])

    keeps_moves(world, claim.lifecycle)
    keeps_claims(world, claim)


async def work_once(db: Connection, claim: Claimable[Any], finish: Move[Any]) -> None:
    """Claim and finish what is there."""
    for one in await db.claim(claim):
        await db.move(finish, one)


def _workers(world: World, claim: Claimable[Any], finish: Move[Any]) -> None:
    """Two workers and one row."""
    one_job(world, claim)

    @world.process(name="worker", times=2)
    async def worker(db: Connection) -> None:
        await work_once(db, claim, finish)

    world.sometimes("a row is claimed twice", lambda moment: len(list(told(moment, claim, "claim"))) > 1)
    world.sometimes("a late holder is told that it has lost", lambda moment: outcomes(moment, finish, "lost"))
    world.sometimes("a finish is unknown", lambda moment: outcomes(moment, finish, "unknown"))


def claimed_columns(world: World) -> None:
    """A claim in columns of its own."""
    _workers(world, Job.work, Job.finish)
    world.sometimes("a row is taken over", _taken_over)


def claimed_with_history(world: World) -> None:
    """The same on a row with a revision and a history."""
    _workers(world, Recorded.work, Recorded.finish)
    world.sometimes("a row is taken over", _taken_over)


def claimed_timestamp(world: World) -> None:
    """A claim in one timestamp."""
    _workers(world, Stamped.work, Stamped.finish)


def claimed_marker(world: World) -> None:
    """A claim in a text that stands in another column."""
    _workers(world, DeliveryRecorded.work, DeliveryRecorded.finish)


def _taken_over(moment: Moment) -> bool:
    return any(isinstance(event.answer, Claim) and event.answer.taken_over for _, event in moment.told)


def _recovering(world: World, claim: Claimable[Any], finish: Move[Any]) -> None:
    """One takes a row and is never seen again; another works until there is nothing left to do."""
    one_job(world, claim)

    @world.process(restarts=False)
    async def passer(db: Connection) -> None:
        await db.claim(claim)

    @world.process
    async def worker(db: Connection) -> None:
        for _ in range(3):
            for one in await db.claim(claim):
                if (await db.move(finish, one)).reached:
                    return
            await asyncio.sleep(claim.lease)

    recovers(world, claim)
    world.sometimes("a row is claimed twice", lambda moment: len(list(told(moment, claim, "claim"))) > 1)


def recovered_columns(world: World) -> None:
    """A lease that is over needs no reaper."""
    _recovering(world, Job.work, Job.finish)


def recovered_timestamp(world: World) -> None:
    """Nor does one in a timestamp."""
    _recovering(world, Stamped.work, Stamped.finish)


def recovered_marker(world: World) -> None:
    """Nor does one in a text."""
    _recovering(world, DeliveryRecorded.work, DeliveryRecorded.finish)


def _renewing(world: World, claim: Claimable[Any], finish: Move[Any]) -> None:
    """One holds its row for longer than a lease, another waits for it."""
    one_job(world, claim)

    @world.process
    async def slow(db: Connection) -> None:
        for one in await db.claim(claim):
            await asyncio.sleep(6)
            (held,) = await db.renew(one)
            if isinstance(held, Claim):
                await db.move(finish, held)

    @world.process
    async def waiting(db: Connection) -> None:
        await asyncio.sleep(LEASE)
        await work_once(db, claim, finish)

    world.sometimes("a claim is renewed", lambda moment: outcomes(moment, claim, "claimed", "renew"))
    world.sometimes("a claim is lost", lambda moment: outcomes(moment, claim, "lost", "renew"))


def renewed_columns(world: World) -> None:
    """A renewal keeps the fence."""
    _renewing(world, Job.work, Job.finish)


def renewed_timestamp(world: World) -> None:
    """A renewal has a fence of its own."""
    _renewing(world, Stamped.work, Stamped.finish)


def renewed_marker(world: World) -> None:
    """So has one in a text."""
    _renewing(world, DeliveryRecorded.work, DeliveryRecorded.finish)


def _giving_back(world: World, claim: Claimable[Any], finish: Move[Any]) -> None:
    """One gives its row back, another finishes it."""
    one_job(world, claim)

    @world.process
    async def shy(db: Connection) -> None:
        await db.release(await db.claim(claim))

    @world.process
    async def worker(db: Connection) -> None:
        await work_once(db, claim, finish)

    world.sometimes("a row is given back", lambda moment: outcomes(moment, claim, "released", "release"))
    world.sometimes("a late one cannot give back", lambda moment: outcomes(moment, claim, "lost", "release"))


def released_columns(world: World) -> None:
    """A row that is given back can be claimed at once."""
    _giving_back(world, Job.work, Job.finish)


def released_timestamp(world: World) -> None:
    """The same in the very millisecond of the first claim."""
    _giving_back(world, Stamped.work, Stamped.finish)


def failing_attempts(world: World) -> None:
    """A row that fails is set aside after its last attempt; a crash burns one."""
    one_job(world, Tried.work)

    @world.process
    async def clumsy(db: Connection) -> None:
        await db.fail(await db.claim(Tried.work))

    @world.process
    async def worker(db: Connection) -> None:
        await work_once(db, Tried.work, Tried.finish)

    world.always("no more attempts than allowed", lambda moment: (number(_row(moment).get("tries")) or 0) <= 1)
    world.sometimes("a row is set aside", lambda moment: outcomes(moment, Tried.work, "dead-lettered", "fail"))
    world.sometimes(
        "one of the dead is set aside", lambda moment: outcomes(moment, Tried.work, "dead-lettered", "claim")
    )


def _row(moment: Moment) -> Any:
    return moment.row("tried", id="j")


def resting(world: World) -> None:
    """A row that has failed is claimed again when its rest is over, and not before."""
    one_job(world, Rested.work)

    @world.process
    async def clumsy(db: Connection) -> None:
        await db.fail(await db.claim(Rested.work))

    @world.process
    async def worker(db: Connection) -> None:
        await work_once(db, Rested.work, Rested.finish)

    at_each_step(world, "who rests is left alone", _rests)
    world.sometimes("a row rests", lambda moment: outcomes(moment, Rested.work, "released", "fail"))
    world.sometimes("a late one cannot fail", lambda moment: outcomes(moment, Rested.work, "lost", "fail"))


def _rests(before: Tables, after: Tables, moment: Moment) -> bool:
    (old,), (new,) = before["rested"], after["rested"]
    rests = seconds(old.get("rests_until"))
    begun = old["status"] == "QUEUED" and new["status"] == "RUNNING"
    return not begun or rests is None or rests <= moment.clock


def claimed_by_key(world: World) -> None:
    """A row is claimed by its key, by two at once."""
    one_job(world, Job.work)

    @world.process(name="caller", times=2)
    async def caller(db: Connection) -> None:
        answer = await db.claim_one(Job.work, "j")
        if isinstance(answer, Claim):
            await db.move(Job.finish, answer)

    world.sometimes("a row is taken", lambda moment: outcomes(moment, Job.work, "taken"))
    world.sometimes("a claim is unknown", lambda moment: outcomes(moment, Job.work, "unknown"))


def next_in_line(world: World) -> None:
    """Two rows of one line: the second can be claimed as soon as the first is done, without waiting for anything."""
    world.table(Lined)
    for key in ("1", "2"):
        world.row(Lined, key, owner="ann")

    @world.before
    async def offer(db: Connection) -> None:
        await db.offer(Lined.work, ["1", "2"])

    @world.process
    async def worker(db: Connection) -> None:
        for one in await db.claim(Lined.work):
            if (await db.move(Lined.finish, one)).won and one.key == "1":
                following = await db.claim(Lined.work)
                assert len(following) == 1, "P13: the second is not offered when the first is done"
                await db.move(Lined.finish, following[0])

    keeps_moves(world, Lined)
    keeps_claims(world, Lined.work)
    world.always("P3: the second waits for the first", _lined_up)
    world.sometimes("all are done", lambda moment: _statuses(moment) == ["DONE", "DONE"])


def _statuses(moment: Moment) -> list[str]:
    return [str(moment.row("lined", id=key)["status"]) for key in ("1", "2")]


def _lined_up(moment: Moment) -> bool:
    first, second = _statuses(moment)
    return second == "QUEUED" or first == "DONE"


def finished_in_transaction(world: World) -> None:
    """What a holder writes, and the end of its claim, in one transaction: once, also if it is late."""
    one_job(world, Job.work)
    world.sql("CREATE TABLE ledger (entry TEXT)")

    @world.process
    async def bookkeeper(db: Connection) -> None:
        for one in await db.claim(Job.work):
            with suppress(NotMine):
                async with db.transaction():
                    await db.execute("INSERT INTO ledger VALUES (?)", one.key)
                    if not (await db.move(Job.finish, one)).won:
                        raise NotMine

    @world.process
    async def thief(db: Connection) -> None:
        await db.claim(Job.work)

    writes_once(world, Job, "DONE", "ledger", "entry")
    world.sometimes("a late one has written nothing", lambda moment: _late(moment) and not moment.rows("ledger"))
    world.sometimes("it is written", lambda moment: len(moment.rows("ledger")) == 1)


def two_shops(world: World) -> None:
    """Two tenants in one table: each claims its own rows, whatever the others do."""
    world.table(Sold)
    for shop, item in SHOPS.items():
        world.row(Sold, (shop, item))

    @world.before
    async def offer(db: Connection) -> None:
        for shop, item in SHOPS.items():
            await db.for_tenant(shop).offer(Sold.work, [item])

    def keeper(shop: str) -> None:
        @world.process(name=shop)
        async def keeper(db: Connection) -> None:
            own = db.for_tenant(shop)
            for one in await own.claim(Sold.work, 2):
                await own.move(Sold.finish, one)

    for shop in SHOPS:
        keeper(shop)
    keeps_moves(world, Sold)
    world.always("P3: a tenant is given its own rows", _own_rows_only)
    world.eventually(
        "all is done, or held", lambda moment: all(row["status"] != "QUEUED" for row in moment.rows("sold"))
    )
    world.sometimes("a shop is done", lambda moment: outcomes(moment, Sold.finish, "moved"))


def _own_rows_only(moment: Moment) -> object:
    for title, event in told(moment, Sold.work, "claim"):
        if isinstance(event.answer, Claim) and event.answer.key != SHOPS[title.rstrip("'")]:
            return f"{title} was given {event.answer.key!r}"
    return True


def _late(moment: Moment) -> bool:
    return any(event.outcome == "lost" for _, event in moment.told)


class NotMine(Exception):
    """The transaction is to be rolled back."""


PACKS = [
    Pack("claimed-columns", ("P1", "P3", "P4", "P5", "P14"), claimed_columns),
    Pack("claimed-with-history", ("P1", "P3", "P4", "P5", "P14"), claimed_with_history),
    Pack(
        "claimed-timestamp",
        ("P1", "P3", "P4", "P5", "P14"),
        claimed_timestamp,
        Limits(deviations=4, seconds=300.0),
    ),
    Pack("claimed-marker", ("P1", "P3", "P4", "P5", "P14"), claimed_marker, Limits(deviations=4, seconds=300.0)),
    Pack("recovered-columns", ("P3", "P13"), recovered_columns),
    Pack("recovered-timestamp", ("P3", "P13"), recovered_timestamp),
    Pack("recovered-marker", ("P3", "P13"), recovered_marker),
    Pack("renewed-columns", ("P3", "P4", "P5"), renewed_columns),
    Pack("renewed-timestamp", ("P3", "P4", "P5"), renewed_timestamp),
    Pack("renewed-marker", ("P3", "P4", "P5"), renewed_marker),
    Pack("released-columns", ("P3", "P4", "P5", "P14"), released_columns),
    # on the other grounds no time passes from one statement to the next, as it does on a server
    Pack("released-timestamp", ("P3", "P4", "P5", "P14"), released_timestamp, grounds=("sqlite",)),
    Pack("failing-attempts", ("P3", "P5", "P13"), failing_attempts),
    Pack("resting", ("P3", "P5", "P13"), resting),
    Pack("claimed-by-key", ("P3", "P4", "P12"), claimed_by_key),
    Pack("next-in-line", ("P3", "P13"), next_in_line),
    Pack("two-shops", ("P1", "P3"), two_shops),
    Pack("finished-in-transaction", ("P4", "P6", "P14"), finished_in_transaction, grounds=SQL),
]
