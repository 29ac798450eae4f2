"""A second dose: a lost receipt that is taken for a failure."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Delivery, Lifecycle, move
from raceproof.deliveries import NotSent
from raceproof.testing.explorer import Call, Connection, Effect, EffectRefused, Limits, World

EXHIBIT = Exhibit(
    title="A second dose for the plants",
    story=(
        "A greenhouse controller tells a pump over MQTT to dose fertiliser once. The broker takes the command, but "
        "its receipt gets lost, and the controller notes SEND_FAILED. The pump doses and has a short power cut. "
        "Twenty seconds later the controller sends again, and the plants get a second dose."
    ),
    follows=(
        "a field note, “Command statuses against races”: the statuses, each guard as it stands there, and the re-send "
        "from SEND_FAILED. The pump remembers the commands that it has carried out, but only until it loses power."
    ),
    quoted="""\
QUEUED → SEND_FAILED → SENT (re-send)

mark_command_sent(cmd_id)         WHERE status IN ('QUEUED', 'SEND_FAILED')
mark_command_done(cmd_id, …)      WHERE status IN ('QUEUED','SENT','ACK')
mark_command_send_failed(cmd_id)  WHERE status = 'QUEUED'""",
    right=(
        "The guards do what the note promises: the status is in the WHERE of every write, and a command never goes "
        "back from ACK or DONE to SENT. And thanks to the pump's memory no single fault gives a second dose."
    ),
    holds=Limits(deviations=1, seconds=60.0),
    schedule="service*2 service:unanswered service device*2 device:dies-after device*2 wait service*4 wait device*3",
    why=(
        "SEND_FAILED claims to know what nobody knows: the receipt was lost, not the command. Had the pump reported "
        "DONE in between, the guards would have refused even that, because DONE is not allowed from SEND_FAILED, and "
        "sending again is."
    ),
    answer=(
        "Whether a command was carried out and whether it was handed over are two questions. `deliver_once` keeps the "
        'second one: a lost receipt is *uncertain*, and with `policy="hold"` it is not sent again by itself. The '
        "lifecycle keeps the first: DONE is accepted whenever it comes. Not promised: that a held command is carried "
        "out; a person, or a question to the device, decides."
    ),
)


# gallery: stage
def stage(world: World) -> tuple[Effect, Effect]:
    """One command that waits, a broker that keeps a message until it is fetched, and a pump."""
    world.sql("""
        CREATE TABLE commands
            (cmd_id TEXT PRIMARY KEY, status TEXT, delivery TEXT, delivering_at TEXT, delivered_at TEXT);
        INSERT INTO commands (cmd_id, status) VALUES ('c-1', 'QUEUED')
    """)

    def broker(calls: Sequence[Call]) -> str | None:
        waiting = 0
        for call in calls[:-1]:
            waiting = waiting + 1 if call.key == "publish" else 0
        return "c-1" if calls[-1].key == "fetch" and waiting else None

    mqtt = world.effect("mqtt", broker)
    pump = world.effect("pump")
    world.never_twice(pump)
    return mqtt, pump


# gallery: naive
async def mark_command_sent(db: Connection) -> None:
    await db.execute("UPDATE commands SET status = 'SENT' WHERE status IN ('QUEUED', 'SEND_FAILED')")


async def mark_command_send_failed(db: Connection) -> None:
    await db.execute("UPDATE commands SET status = 'SEND_FAILED' WHERE status = 'QUEUED'")


async def mark_command_done(db: Connection) -> None:
    await db.execute("UPDATE commands SET status = 'DONE' WHERE status IN ('QUEUED', 'SENT', 'ACK')")


def naive(world: World) -> None:
    mqtt, pump = stage(world)

    @world.process
    async def service(db: Connection) -> None:
        while await db.execute("SELECT 1 FROM commands WHERE status IN ('QUEUED', 'SEND_FAILED')"):
            try:
                await mqtt("publish")
                await mark_command_sent(db)
            except OSError:
                await mark_command_send_failed(db)
            await asyncio.sleep(20)

    @world.process
    async def device(db: Connection) -> None:
        remembered = set()
        for _ in range(2):
            command = await mqtt("fetch")
            if command and command not in remembered:
                await pump(command)
                remembered.add(command)
            if command:
                await mark_command_done(db)
            await asyncio.sleep(30)


# gallery: guarded
class Status(StrEnum):
    QUEUED = "QUEUED"
    DONE = "DONE"


class Command(Lifecycle[Status], table="commands", key="cmd_id"):
    finish = move(Status.QUEUED, to=Status.DONE)


handing_over = Delivery("command", table="commands", key="cmd_id", state="delivery", policy="hold")


def guarded(world: World) -> None:
    mqtt, pump = stage(world)

    @world.process
    async def service(db: Connection) -> None:
        async with db.deliver_once(handing_over, "c-1") as permit:
            if not permit.won:
                return
            try:
                await mqtt("publish")
            except EffectRefused as error:
                raise NotSent("the broker was not reached") from error

    @world.process
    async def device(db: Connection) -> None:
        if command := await mqtt("fetch"):
            await pump(command)
            await db.move(Command.finish, command)

    world.sometimes(
        "done although the receipt was lost",
        lambda moment: (row := moment.row("commands"))["status"] == "DONE" and row["delivery"] == "uncertain",
    )


# gallery: end
