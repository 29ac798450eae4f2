"""The pump that ran all night: a leader that believes it still leads."""

import asyncio
from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Lease, LeaseGranted, Lifecycle, move
from raceproof.testing.explorer import Connection, World
from raceproof.testing.explorer.ground import Tables

EXHIBIT = Exhibit(
    title="The pump that ran all night",
    story=(
        "Two instances run, one of them is ACTIVE and switches the pump. It decides to switch it on, and stands still "
        "for six minutes: a paused container, a full disk. The other one takes over and switches the pump off. The "
        "first one wakes up, still ACTIVE as far as it knows, and switches the pump on. Nobody will switch it off "
        "again."
    ),
    follows=(
        "a field note, “Architecture”: the lock controller with its heartbeat table, the takeover after five minutes, "
        "and the global flag ACTIVE/PASSIVE. The same bug is in many leader elections."
    ),
    quoted="""\
- ACTIVE mode: Holds advisory lock, processes all updates
- Heartbeat: Update lock_heartbeat table every 30s
- Takeover: If lock holder idle > 5 minutes, force takeover
- active_state (app/locking/active_state.py): ACTIVE/PASSIVE flag""",
    right=(
        "Only one instance gets the lock at a time, a dead one is replaced, and the passive one stays useful. A "
        "heartbeat tells the others about the leader; what is missing is a word to the leader itself."
    ),
    schedule="instance-1*2 instance-2 wait instance-2*3 instance-1",
    why=(
        "The flag was true when it was read; the write comes six minutes later and carries nothing that the store "
        "could check."
    ),
    answer=(
        "Every term of a leader has an epoch, and the write names it: `where=db.lease_guard(leading)`. A write from "
        "an older epoch is refused in the same statement. Not promised: that two processes never both believe that "
        "they lead."
    ),
)


# gallery: stage
def stage(world: World) -> None:
    """A pump that is off, and a column that says who has written it."""
    world.sql("""
        CREATE TABLE pump (id INTEGER PRIMARY KEY, status TEXT, written_by TEXT);
        INSERT INTO pump (id, status) VALUES (1, 'OFF')
    """)


# gallery: naive
async def become_active(db: Connection, me: str) -> bool:
    return bool(
        await db.execute(
            """
            INSERT INTO lock_heartbeat (id, holder, at) VALUES (1, ?, datetime('now'))
            ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, at = excluded.at
            WHERE lock_heartbeat.at < datetime('now', '-5 minutes')
            RETURNING holder
            """,
            me,
        )
    )


def naive(world: World) -> None:
    stage(world)
    world.sql("CREATE TABLE lock_heartbeat (id INTEGER PRIMARY KEY, holder TEXT, at TEXT)")

    @world.process
    async def instance_1(db: Connection) -> None:
        active = await become_active(db, "instance-1")
        if active:
            await db.execute("UPDATE pump SET status = 'ON', written_by = 'instance-1'")

    @world.process
    async def instance_2(db: Connection) -> None:
        await asyncio.sleep(360)
        active = await become_active(db, "instance-2")
        if active:
            await db.execute("UPDATE pump SET status = 'OFF', written_by = 'instance-2'")

    def by_the_leader(before: Tables, after: Tables) -> bool:
        [pump], [leader] = after["pump"], after["lock_heartbeat"] or [{"holder": None}]
        return before["pump"] == after["pump"] or pump["written_by"] == leader["holder"]

    world.change("only the leader switches the pump", by_the_leader)


# gallery: guarded
class Status(StrEnum):
    OFF = "OFF"
    ON = "ON"


class Pump(Lifecycle[Status], table="pump", terminal=()):
    switch_on = move(Status.OFF, to=Status.ON, sets="written_by")
    switch_off = move(Status.ON, to=Status.OFF, sets="written_by")


controller = Lease("controller", seconds=300)


def guarded(world: World) -> None:
    stage(world)
    world.table(controller)

    @world.process
    async def instance_1(db: Connection) -> None:
        leading = await db.acquire_lease(controller, by="instance-1")
        if isinstance(leading, LeaseGranted):
            guard = db.lease_guard(leading)
            await db.move(Pump.switch_on, 1, set={"written_by": "instance-1"}, where=guard)

    @world.process
    async def instance_2(db: Connection) -> None:
        await asyncio.sleep(360)
        leading = await db.acquire_lease(controller, by="instance-2")
        if isinstance(leading, LeaseGranted):
            guard = db.lease_guard(leading)
            await db.move(Pump.switch_off, 1, set={"written_by": "instance-2"}, where=guard)

    def by_the_leader(before: Tables, after: Tables) -> bool:
        [pump], [leader] = after["pump"], after["raceproof_lease"] or [{"holder": None}]
        return before["pump"] == after["pump"] or pump["written_by"] == leader["holder"]

    world.change("only the leader switches the pump", by_the_leader)
    world.sometimes("taken over", lambda moment: any("took over" in str(told.answer) for _, told in moment.told))


# gallery: end
