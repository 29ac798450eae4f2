"""The lifecycle of a command to a device: the declaration that one of the two sides is guarded by."""

from enum import StrEnum

from raceproof import Lifecycle, move
from raceproof.declare import History


class Status(StrEnum):
    """What is known of a command."""

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
WRITES = "updated_by"


class Command(
    Lifecycle[Status],
    table="commands",
    key="cmd_id",
    revision="rev",
    history=History(losers=True),
):
    """An answer may overtake the record of the sending, and an end may come without an ACK: both are allowed."""

    send = move(Status.QUEUED, Status.SEND_FAILED, to=Status.SENT, sets=WRITES)
    fail_sending = move(Status.QUEUED, to=Status.SEND_FAILED, sets=WRITES)
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK, sets=WRITES)
    finish = move(*OPEN, to=Status.DONE, sets=WRITES)
    no_effect = move(*OPEN, to=Status.NO_EFFECT, sets=WRITES)
    fail = move(*OPEN, to=Status.ERROR, sets=WRITES)
    invalid = move(*OPEN, to=Status.INVALID, sets=WRITES)
    busy = move(*OPEN, to=Status.BUSY, sets=WRITES)
    time_out = move(*OPEN, to=Status.TIMEOUT, sets=WRITES)


ANSWERS = {
    one.target: one
    for one in (
        Command.ack,
        Command.finish,
        Command.no_effect,
        Command.fail,
        Command.invalid,
        Command.busy,
    )
}
"""The move that records a device's answer."""
