"""What may happen to an ordered picture: the whole machine, in one file.

A job is a draft until its user confirms and pays (the money is held). Then its task is created at KIE once, watched until
there is a result, and the result is sent once. Two steps cannot be repeated safely, because neither side knows an
idempotency key: creating the task and sending the picture. Each is a delivery, whose unknown end is a state of its own.
Every end says what became of the money: charged when delivered, given back otherwise, held while the outcome is unknown.
Every status of a paid job ends by itself: `watching` has the deadlines of the task, `deadlines` those of the delivery.
"""

from dataclasses import replace
from enum import StrEnum

from imagebot.settings import Settings
from raceproof import Backoff, Delivery, Inbox, Lifecycle, claimable, move, sql
from raceproof.claims import ClaimColumns
from raceproof.declare import History


class Status(StrEnum):
    CHOOSING_MODEL = "choosing_model"
    CHOOSING_RATIO = "choosing_ratio"
    WRITING_PROMPT = "writing_prompt"
    CONFIRMING = "confirming"
    CANCELLED = "cancelled"
    QUEUED = "queued"
    CREATING = "creating"
    CREATE_UNKNOWN = "create_unknown"
    GENERATING = "generating"
    READY = "ready"
    DELIVERED = "delivered"
    UNCERTAIN = "uncertain"
    FAILED = "failed"
    BLOCKED = "blocked"
    EXPIRED = "expired"
    REFUNDED = "refunded"


DRAFT = (Status.CHOOSING_MODEL, Status.CHOOSING_RATIO, Status.WRITING_PROMPT, Status.CONFIRMING)
UNDER_WAY = (Status.QUEUED, Status.CREATING, Status.CREATE_UNKNOWN, Status.GENERATING, Status.READY)
"""Paid for, and not ended."""
GIVEN_BACK = (Status.FAILED, Status.BLOCKED, Status.EXPIRED, Status.REFUNDED)

NOT_BEING_SENT = sql(
    "(t.status = 'uncertain' OR t.delivery_state IS NULL OR t.delivery_state NOT IN ('reserved', 'sending'))"
)
"""No sender is at it. At `uncertain` the row still says `sending` if its sender has died."""


class Job(
    Lifecycle[Status],
    table="generation_jobs",
    key="job_id",
    initial=(Status.CHOOSING_MODEL, Status.CONFIRMING),
    terminal=(Status.CANCELLED, *GIVEN_BACK),
    history=History("job_history", losers=True),
):
    """An order for a picture, and where it stands."""

    choose_model = move(Status.CHOOSING_MODEL, to=Status.CHOOSING_RATIO, sets="model")
    choose_ratio = move(Status.CHOOSING_RATIO, to=Status.WRITING_PROMPT, sets="aspect_ratio")
    write_prompt = move(Status.WRITING_PROMPT, to=Status.CONFIRMING, sets=("prompt", "price"))
    confirm = move(Status.CONFIRMING, to=Status.QUEUED, stamp="confirmed_at", sets="progress_message")
    cancel = move(*DRAFT, to=Status.CANCELLED, stamp="ended_at")

    start = move(Status.QUEUED, to=Status.CREATING)
    requeue = move(Status.CREATING, to=Status.QUEUED)
    created = move(Status.CREATING, to=Status.GENERATING, stamp="submitted_at", sets="external_task_id")
    lose_sight = move(Status.CREATING, to=Status.CREATE_UNKNOWN, sets="error_text")
    adopt = move(
        Status.QUEUED,
        Status.CREATING,
        Status.CREATE_UNKNOWN,
        to=Status.GENERATING,
        stamp="submitted_at",
        sets="external_task_id",
        # only where a task was asked for, and no answer said that there is none
        where=[sql("t.creation_state IN ('sending', 'uncertain', 'delivered')")],
    )
    ready = move(Status.GENERATING, to=Status.READY, stamp="ready_at", sets="result_urls")
    fail = move(
        Status.QUEUED,
        Status.CREATING,
        Status.CREATE_UNKNOWN,
        Status.GENERATING,
        to=Status.FAILED,
        stamp="ended_at",
        sets="error_text",
    )

    deliver = move(Status.READY, Status.UNCERTAIN, to=Status.DELIVERED, stamp="ended_at")
    doubt = move(
        Status.READY,
        to=Status.UNCERTAIN,
        stamp="doubted_at",
        sets="error_text",
        where=[sql("t.delivery_state IN ('sending', 'uncertain')")],
    )
    send_again = move(Status.UNCERTAIN, to=Status.READY, stamp="ready_at")
    block = move(Status.READY, to=Status.BLOCKED, stamp="ended_at", sets="error_text")
    expire = move(Status.READY, to=Status.EXPIRED, stamp="ended_at", sets="error_text")
    refund = move(
        Status.READY,
        Status.UNCERTAIN,
        Status.CREATE_UNKNOWN,
        Status.DELIVERED,
        to=Status.REFUNDED,
        stamp="ended_at",
        sets="error_text",
        where=[NOT_BEING_SENT],
    )

    submit = claimable(
        start,
        lease=20.0,
        form=ClaimColumns(),
        order_by="confirmed_at",
        attempts="claims",
        not_before="rests_until",
        backoff=Backoff(1.0, 60.0),
        back=requeue,
    )


_ENDED_OR_UNCERTAIN = sql("t.status NOT IN ('queued', 'creating', 'create_unknown', 'generating', 'ready')")


class Watched(StrEnum):
    WATCHED = "watched"
    LEFT = "left"


class Watch(Lifecycle[Watched], table="generation_jobs", key="job_id", column="watch", terminal=()):
    """Whether the poller still looks at a job; apart from its status, so that a look is no line in its history."""

    # not if it has been brought back in the meantime: a picture that is to be sent again needs its poller
    leave = move(Watched.WATCHED, to=Watched.LEFT, where=[_ENDED_OR_UNCERTAIN])
    resume = move(Watched.LEFT, to=Watched.WATCHED)

    poll = claimable(
        at=[Watched.WATCHED],
        lease=20.0,
        form=ClaimColumns("watched_by", "watched_until", "watch_fence"),
        order_by="made_at",
        not_before="watch_after",
        where=[sql("t.status NOT IN ('choosing_model', 'choosing_ratio', 'writing_prompt', 'confirming', 'queued')")],
    )


class TopUpStatus(StrEnum):
    CHOOSING = "choosing"
    REQUESTED = "requested"
    APPROVED = "approved"
    REJECTED = "rejected"


class TopUp(
    Lifecycle[TopUpStatus],
    table="topups",
    key="topup_id",
    terminal=(TopUpStatus.APPROVED, TopUpStatus.REJECTED),
    history=History("topup_history", losers=True),
):
    """Money that a user says to have paid, until an admin has seen it."""

    ask = move(TopUpStatus.CHOOSING, to=TopUpStatus.REQUESTED, stamp="requested_at", sets="amount")
    approve = move(TopUpStatus.REQUESTED, to=TopUpStatus.APPROVED, stamp="ended_at", sets="ended_by")
    reject = move(TopUpStatus.REQUESTED, to=TopUpStatus.REJECTED, stamp="ended_at", sets="ended_by")


picture = Delivery(
    "picture",
    table="generation_jobs",
    key="job_id",
    delivering="delivering_at",
    delivered="delivered_at",
    state="delivery_state",
    holder="delivered_by",
    error="delivery_error",
    attempts="delivery_attempts",
    stale=300.0,
    policy="hold",
)
"""The picture, to its user: Telegram knows no idempotency key, so a send without an answer is uncertain."""

creation = Delivery(
    "creation",
    table="generation_jobs",
    key="job_id",
    delivering="creating_at",
    delivered="task_created_at",
    state="creation_state",
    holder="created_by",
    error="creation_error",
    attempts="creation_attempts",
    stale=120.0,
    policy="hold",
)
"""The task, at KIE: a createTask without an answer may have made one, so it is never asked for twice."""

updates = Inbox(table="telegram_updates", lease=20.0, attempts=12, backoff=Backoff(0.5, 30.0))
"""What Telegram has sent, kept before anybody says 200; of one user one after the other."""
callbacks = Inbox(table="kie_callbacks", lease=20.0, attempts=20, backoff=Backoff(0.5, 60.0))
"""What KIE has said. Nothing of it is believed: it only says where to look."""
notices = Inbox(table="notices", lease=20.0, attempts=30, backoff=Backoff(1.0, 300.0))
"""Messages to users and admins, written in the transaction they are about; a text is delivered at least once."""

MENU, WORK = "telegram_menu", "telegram"
"""Sources of updates: those that every instance answers, and those that wait for the ACTIVE one."""


def picture_of(settings: Settings) -> Delivery:
    """The delivery with the operator's policy and patience."""
    return replace(picture, policy=settings.uncertain_delivery, stale=settings.delivery_stale)


def creation_of(settings: Settings) -> Delivery:
    return replace(creation, stale=settings.creation_stale)
