"""What the commands about work are tested with: claims, a delivery, attempts, leases and an inbox."""

from enum import StrEnum

from raceproof import Attempts, Backoff, Delivery, Inbox, Lease, Lifecycle, claimable, move
from raceproof.claims import TextMarker, TimestampClaim


class Stage(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DEAD = "DEAD"


class Job(Lifecycle[Stage], table="work_jobs", key="id", revision="rev", history="raceproof_history"):
    """Work that is started, finished, given back and set aside."""

    start = move(Stage.QUEUED, to=Stage.RUNNING)
    requeue = move(Stage.RUNNING, to=Stage.QUEUED)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    give_up = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DEAD)
    work = claimable(
        start,
        lease=60,
        order_by="made_at",
        attempts="attempts",
        max_attempts=3,
        not_before="rests_until",
        back=requeue,
        dead_letter=give_up,
        backoff=Backoff(10, 100),
    )


class Line(Lifecycle[Stage], table="work_lines", key="id"):
    """Serial work, and no way out for a row that is out of attempts."""

    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    bury = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DEAD)
    work = claimable(start, lease=60, order_by="made_at", ordering_key="device", attempts="attempts", max_attempts=2)


class Dated(Lifecycle[Stage], table="work_drafts"):
    """A claim in one timestamp, on a row that stays where it is."""

    finish = move(Stage.QUEUED, to=Stage.DONE)
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    bury = move(Stage.RUNNING, to=Stage.DEAD)
    work = claimable(at=(Stage.QUEUED,), lease=60, form=TimestampClaim("taken_at"))


class Marked(Lifecycle[Stage], table="work_drafts"):
    """A claim in a column that has texts of its own."""

    finish = move(Stage.QUEUED, to=Stage.DONE)
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    bury = move(Stage.RUNNING, to=Stage.DEAD)
    work = claimable(at=(Stage.QUEUED,), lease=60, form=TextMarker("error", "DRAFT"))


class Login(StrEnum):
    PENDING = "pending"
    DONE = "done"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


class Logging(Lifecycle[Login], table="work_logins", key="id", history="raceproof_history"):
    """Attempts of a user."""

    finish = move(Login.PENDING, to=Login.DONE)
    expire = move(Login.PENDING, to=Login.EXPIRED)
    supersede = move(Login.PENDING, to=Login.SUPERSEDED, sets="superseded_by")


logins = Attempts(
    Logging,
    owner="owner",
    supersede=Logging.supersede,
    link="superseded_by",
    started="began_at",
    ttl=900,
    expire=Logging.expire,
)
pictures = Delivery(
    "picture",
    "work_pictures",
    state="state",
    holder="sender",
    error="send_error",
    attempts="tries",
    policy="hold",
)
bot_lease = Lease("bot", 30, "work_leases")
events = Inbox("work_inbox", attempts=2)
