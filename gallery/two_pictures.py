"""Two pictures for one prompt: a lock that takes a time-out for a failure."""

from gallery.exhibit import Exhibit
from raceproof import Delivery
from raceproof.deliveries import NotSent
from raceproof.testing.explorer import Connection, Effect, EffectRefused, Limits, World

EXHIBIT = Exhibit(
    title="Two pictures for one prompt",
    story=(
        "A user of a Telegram bot asks for one picture. The generator reports the result twice over: it calls back, "
        "and a poller asks it. A lock column makes sure that only one of the two sends. Then Telegram takes a little "
        "too long to answer, and the user gets the same picture twice."
    ),
    follows="a field note, “Atomic delivery lock, final”: the lock, the marks after the send, the scenarios 4 and 5.",
    quoted="""\
UPDATE generation_jobs
SET delivering_at = NOW()
WHERE (external_task_id = $1 OR job_id = $1)
  AND delivered_at IS NULL
  AND (delivering_at IS NULL OR delivering_at < NOW() - INTERVAL '5 minutes')
RETURNING *

try:
    await _deliver_result_to_telegram(...)
    await storage.mark_delivered(task_id, success=True)
except Exception as e:
    await storage.mark_delivered(task_id, success=False, error=str(e))

-- Failure:
UPDATE ... SET delivering_at=NULL WHERE ...  -- Allow retry""",
    right=(
        "The lock is one write with its condition inside, and the mark comes after the send. As long as nothing fails "
        "and nobody is slow, callback and poller do not send twice: the note's scenarios 1, 2 and 3 are right."
    ),
    holds=Limits(deviations=1, crashes=0, lost=0, errors=0, cancels=0, seconds=60.0),
    search=Limits(crashes=0, seconds=60.0),
    schedule="callback*2 callback:unanswered callback poller*3",
    why=(
        "A time-out is not a failure: the picture had arrived, only the answer was lost, and “allow retry” sends it "
        "again. The note's scenario 5 has the same gap: who dies between the send and the mark leaves a lock that is "
        "over after five minutes, and then the picture is sent again."
    ),
    answer=(
        "`deliver_once` knows three ends, not two: sent, surely not sent (`NotSent`, the next may try at once), and "
        "unknown. Telegram takes no idempotency key, so nobody can have both “never twice” and “never lost”; with "
        '`policy="hold"` an unknown outcome waits for an operator, who sees it in `db.deliveries(picture)` and resolves '
        "it. Every mark names the turn that it ends, so a slow sender cannot free or end the turn of another."
    ),
)


# gallery: stage
def stage(world: World) -> Effect:
    """One job whose picture is ready, and a user who wants it once."""
    world.sql("""
        CREATE TABLE generation_jobs (job_id TEXT PRIMARY KEY, delivering_at TEXT, delivered_at TEXT, delivery TEXT);
        INSERT INTO generation_jobs (job_id) VALUES ('j-1')
    """)
    send_photo = world.effect("send-photo")
    world.never_twice(send_photo)
    return send_photo


# gallery: naive
async def try_acquire_delivery_lock(db: Connection, job_id: str) -> bool:
    rows = await db.execute(
        """
        UPDATE generation_jobs
        SET delivering_at = datetime('now')
        WHERE job_id = ?
          AND delivered_at IS NULL
          AND (delivering_at IS NULL OR delivering_at < datetime('now', '-5 minutes'))
        RETURNING job_id
        """,
        job_id,
    )
    return bool(rows)


async def mark_delivered(db: Connection, job_id: str, success: bool) -> None:
    if success:
        await db.execute(
            "UPDATE generation_jobs SET delivered_at = datetime('now'), delivering_at = NULL WHERE job_id = ?",
            job_id,
        )
    else:  # allow retry
        await db.execute("UPDATE generation_jobs SET delivering_at = NULL WHERE job_id = ?", job_id)


def naive(world: World) -> None:
    send_photo = stage(world)

    async def deliver(db: Connection) -> None:
        if not await try_acquire_delivery_lock(db, "j-1"):
            return
        try:
            await send_photo("j-1")
            await mark_delivered(db, "j-1", success=True)
        except Exception:
            await mark_delivered(db, "j-1", success=False)

    @world.process
    async def callback(db: Connection) -> None:
        await deliver(db)

    @world.process
    async def poller(db: Connection) -> None:
        await deliver(db)


# gallery: guarded
picture = Delivery("picture", table="generation_jobs", key="job_id", state="delivery", policy="hold")


def guarded(world: World) -> None:
    send_photo = stage(world)

    async def deliver(db: Connection) -> None:
        async with db.deliver_once(picture, "j-1") as permit:
            if not permit.won:
                return
            try:
                await send_photo("j-1")
            except EffectRefused as error:  # no connection: nothing has left this process
                raise NotSent("Telegram was not reached") from error

    @world.process
    async def callback(db: Connection) -> None:
        await deliver(db)

    @world.process
    async def poller(db: Connection) -> None:
        await deliver(db)

    world.eventually(
        "the picture is delivered, or listed for a person",
        lambda moment: moment.row("generation_jobs")["delivery"] in ("delivered", "uncertain", "sending"),
    )
    world.sometimes("delivered", lambda moment: moment.row("generation_jobs")["delivery"] == "delivered")


# gallery: end
