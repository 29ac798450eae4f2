"""A small shop of everything that can fall ill: claims, attempts, a delivery, a lease and an inbox."""

from enum import StrEnum

from raceproof import Attempts, Delivery, Inbox, Lease, Lifecycle, claimable, move
from raceproof.declare import Expiry, History


class Stage(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DEAD = "DEAD"


class Job(
    Lifecycle[Stage],
    table="ill_jobs",
    key="id",
    revision="rev",
    history=History("ill_history", losers=True),
    expires=Expiry(3600, 60),
):
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    requeue = move(Stage.RUNNING, to=Stage.QUEUED)
    finish = move(Stage.RUNNING, to=Stage.DONE, stamp="done_at")
    give_up = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DEAD)
    work = claimable(
        start,
        lease=60,
        order_by="made_at",
        attempts="attempts",
        max_attempts=3,
        back=requeue,
        dead_letter=give_up,
    )


class Parcel(Lifecycle[Stage], table="ill_parcels", key=("shop", "number")):
    """No history, a key of two columns, and no way out for a row that is out of attempts."""

    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    bury = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DEAD)
    work = claimable(start, lease=60, attempts="attempts", max_attempts=2)


class Entry(StrEnum):
    PENDING = "pending"
    DONE = "done"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


class Login(Lifecycle[Entry], table="ill_logins", key="id", history="ill_history", expires=Expiry(900, 3600)):
    finish = move(Entry.PENDING, to=Entry.DONE)
    expire = move(Entry.PENDING, to=Entry.EXPIRED)
    supersede = move(Entry.PENDING, to=Entry.SUPERSEDED, sets="superseded_by")


logins = Attempts(
    Login,
    owner="owner",
    supersede=Login.supersede,
    link="superseded_by",
    started="began_at",
    ttl=900,
    expire=Login.expire,
)
pictures = Delivery("picture", "ill_pictures", state="state", holder="sender", policy="hold")
bot = Lease("bot", 30, "ill_leases")
letters = Inbox("ill_inbox", attempts=1)
