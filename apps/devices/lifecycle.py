"""What may happen to a command: the whole machine, in one file.

The status goes by the note: a late SENT never overwrites an ACK, and what has ended stays ended. Beside the status a row
carries its permit to be published. Withdrawing that is how a command is cancelled, and how evidence that a node has
executed it keeps it from being sent again (D5).
"""

from enum import StrEnum

from raceproof import Backoff, Delivery, Inbox, Lifecycle, claimable, column, move, sql
from raceproof.claims import ClaimColumns
from raceproof.declare import History
from raceproof.run import Schedules


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"
    DONE = "DONE"
    NO_EFFECT = "NO_EFFECT"
    ERROR = "ERROR"
    INVALID = "INVALID"
    BUSY = "BUSY"
    TIMEOUT = "TIMEOUT"
    SEND_FAILED = "SEND_FAILED"


OPEN = (Status.QUEUED, Status.SENT, Status.ACK)
"""A terminal response may come without an ACK, and before SENT was written."""
WAITING = (Status.QUEUED, Status.SEND_FAILED)
"""Not published yet, as far as anybody knows."""
ENDED = (Status.DONE, Status.NO_EFFECT, Status.ERROR, Status.INVALID, Status.BUSY, Status.TIMEOUT)

PUBLISHING = 10.0
"""Seconds after which a try without an end counts as uncertain; more than the wait for a PUBACK."""
LEASE = 10.0
"""Seconds after which the work of an instance that has died goes to another: responses, upkeep."""
DISPATCH_LEASE = 20.0
"""The same for commands. A worker renews it when a third is over; what is left is more than the ten seconds for which a node
takes a command. So an instance that slept past its lease publishes only what nodes refuse, never a dose after a stop."""


class Command(
    Lifecycle[Status],
    table="commands",
    key="cmd_id",
    terminal=ENDED,
    history=History("command_history", losers=True),
):
    """A command and where it stands."""

    sent = move(*WAITING, to=Status.SENT, stamp="sent_at")
    sent_first = move(Status.QUEUED, to=Status.SENT, stamp="sent_at")
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK, stamp="ack_at")
    done = move(*OPEN, to=Status.DONE, stamp="ended_at", sets=("duration_ms", "result_code"))
    no_effect = move(*OPEN, to=Status.NO_EFFECT, stamp="ended_at", sets="duration_ms")
    failed = move(*OPEN, to=Status.ERROR, stamp="ended_at", sets=("error_code", "error_message", "result_code"))
    invalid = move(*OPEN, to=Status.INVALID, stamp="ended_at", sets=("error_code", "error_message", "result_code"))
    busy = move(*OPEN, to=Status.BUSY, stamp="ended_at", sets=("error_code", "error_message", "result_code"))
    timeout = move(*OPEN, to=Status.TIMEOUT, stamp="ended_at")
    send_failed = move(Status.QUEUED, to=Status.SEND_FAILED, sets="error_message")

    dispatch = claimable(
        at=WAITING,
        lease=DISPATCH_LEASE,
        form=ClaimColumns(),
        order_by=("rank", "number"),
        ordering_key="line",
        attempts="claims",
        not_before="rests_until",
        backoff=Backoff(0.5, 20.0),
        where=[
            column("permit") == "ALLOWED",
            sql("t.valid_until > CURRENT_TIMESTAMP"),
            # A node that was never heard of counts as absent; a stop is tried all the same.
            sql(
                "(EXISTS (SELECT 1 FROM nodes WHERE nodes.path = t.node AND nodes.state = 'ONLINE')"
                " OR t.rank = 0 AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.path = t.node))"
            ),
            # A stop is the first of its line, and still waits for a command of its channel that is on its way right now,
            # also for one that stands in no line since its permit was withdrawn.
            sql(
                "NOT EXISTS (SELECT 1 FROM commands AS other WHERE other.node = t.node AND other.channel = t.channel"
                " AND other.cmd_id <> t.cmd_id AND other.status IN ('QUEUED', 'SEND_FAILED')"
                " AND other.claimed_until > CURRENT_TIMESTAMP)"
            ),
        ],
    )


_WAITS = sql("t.status IN ('QUEUED', 'SEND_FAILED')")


class Allowance(StrEnum):
    ALLOWED = "ALLOWED"
    WITHDRAWN = "WITHDRAWN"


class Permit(
    Lifecycle[Allowance],
    table="commands",
    key="cmd_id",
    column="permit",
    terminal=(),
    history=History("command_history", losers=True),
):
    """Whether a command may be published; a withdrawn one stands in no line, so that it holds up no other."""

    withdraw = move(Allowance.ALLOWED, to=Allowance.WITHDRAWN, sets=("why", "line"), where=[_WAITS])
    grant = move(
        Allowance.WITHDRAWN,
        to=Allowance.ALLOWED,
        sets=("why", "line", "overridden_by", "valid_until"),
        where=[_WAITS],
    )


class Presence(StrEnum):
    OFFLINE = "OFFLINE"
    ONLINE = "ONLINE"


class Node(Lifecycle[Presence], table="nodes", key="path", column="state", initial=tuple(Presence), terminal=()):
    """A node, by its last will and its heartbeats."""

    appear = move(Presence.OFFLINE, to=Presence.ONLINE, stamp="changed_at")
    vanish = move(Presence.ONLINE, to=Presence.OFFLINE, stamp="changed_at")


publish = Delivery(
    "publish",
    table="commands",
    key="cmd_id",
    delivering="publishing_at",
    delivered="published_at",
    state="publish_state",
    holder="published_by",
    error="publish_error",
    attempts="publishes",
    stale=PUBLISHING,
    policy="probe",
)
"""One try to publish at a time; an unknown outcome is a state of its own, *uncertain*."""

responses = Inbox(table="responses", lease=LEASE, attempts=20, backoff=Backoff(0.2, 30.0))
"""What nodes have said, kept before anything is done about it."""

schedules = Schedules(lease=LEASE)
"""What is done by the clock, by one instance at a time."""
