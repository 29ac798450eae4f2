"""The lifecycle that the examples share: a command to a device."""

# docs: lifecycle
from enum import StrEnum

from raceproof import Lifecycle, move
from raceproof.declare import History


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"
    DONE = "DONE"
    ERROR = "ERROR"
    SEND_FAILED = "SEND_FAILED"


OPEN = (Status.QUEUED, Status.SENT, Status.ACK)


class Command(
    Lifecycle[Status],
    table="commands",
    key="cmd_id",
    revision="rev",
    terminal=(Status.DONE, Status.ERROR),
    history=History(losers=True),
):
    send = move(Status.QUEUED, Status.SEND_FAILED, to=Status.SENT, stamp="sent_at")
    fail_sending = move(Status.QUEUED, to=Status.SEND_FAILED, sets="error")
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK, stamp="ack_at")
    finish = move(*OPEN, to=Status.DONE, sets="duration_ms")
    fail = move(*OPEN, to=Status.ERROR, sets="error")
