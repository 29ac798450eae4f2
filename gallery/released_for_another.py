"""Two invoices with one number: a lock that anybody may release."""

from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Claim, Lifecycle, claimable, move
from raceproof.testing.explorer import Connection, Effect, Limits, World

EXHIBIT = Exhibit(
    title="Two invoices with the same number",
    story=(
        "Invoices are numbered, so whoever writes one takes a lock on the counter first. Ann and Bob order at the "
        "same moment, and get invoices with the same number. The tax office is not amused."
    ),
    follows="a bug that is in every second hand-made lock: `finally: release()`, by the name of the lock.",
    quoted="""\
try:
    if await acquire("invoices"):
        …
finally:
    await release("invoices")""",
    right="Taking the lock is one write with its condition inside, and it is released whatever happens.",
    limits=Limits(seconds=240.0),
    schedule="ann*3 bob*8 ann*2",
    why=(
        "Whoever did not get the lock releases it all the same, and so frees what another one holds. (A holder that "
        "was paused past the lock's time would do the same.)"
    ),
    answer=(
        "A claim is a value: who has none has nothing to give back. The write that advances the counter also gives it "
        "back, and it names the fence of the claim; so a holder that was paused for too long frees nothing, and "
        "learns that its number is not its own before it prints. Not promised: that there are no gaps; an answer that "
        "gets lost costs a number."
    ),
)


# gallery: stage
def stage(world: World) -> Effect:
    """The last invoice had number 41; every number may be printed once."""
    world.sql("""
        CREATE TABLE counter (name TEXT PRIMARY KEY, status TEXT, last INTEGER,
                              claimed_by TEXT, claimed_until TEXT, fence INTEGER);
        INSERT INTO counter (name, status, last) VALUES ('invoices', 'FREE', 41)
    """)
    print_invoice = world.effect("print-invoice")
    world.never_twice(print_invoice)
    return print_invoice


# gallery: naive
async def acquire(db: Connection) -> bool:
    return bool(await db.execute("UPDATE counter SET status = 'TAKEN' WHERE status = 'FREE' RETURNING name"))


async def release(db: Connection) -> None:
    await db.execute("UPDATE counter SET status = 'FREE'")


def naive(world: World) -> None:
    print_invoice = stage(world)

    async def order(db: Connection) -> None:
        for _ in range(2):  # the shop tries again
            try:
                if await acquire(db):
                    [(last,)] = await db.execute("SELECT last FROM counter")
                    await db.execute("UPDATE counter SET last = ?", last + 1)
                    await print_invoice(last + 1)
                    return
            finally:
                await release(db)

    @world.process
    async def ann(db: Connection) -> None:
        await order(db)

    @world.process
    async def bob(db: Connection) -> None:
        await order(db)


# gallery: guarded
class Status(StrEnum):
    FREE = "FREE"
    TAKEN = "TAKEN"


class Counter(Lifecycle[Status], table="counter", key="name", terminal=()):
    take = move(Status.FREE, to=Status.TAKEN)
    advance = move(Status.TAKEN, to=Status.FREE, sets="last")

    use = claimable(take, lease=30)


def guarded(world: World) -> None:
    print_invoice = stage(world)

    async def order(db: Connection) -> None:
        mine = await db.claim_one(Counter.use, "invoices", returning=["last"])
        if isinstance(mine, Claim):  # or else: please try again
            number = mine.row["last"] + 1
            if (await db.move(Counter.advance, mine, set={"last": number})).won:
                await print_invoice(number)

    @world.process
    async def ann(db: Connection) -> None:
        await order(db)

    @world.process
    async def bob(db: Connection) -> None:
        await order(db)

    world.sometimes("both have an invoice", lambda moment: len(moment.calls(print_invoice)) == 2)


# gallery: end
