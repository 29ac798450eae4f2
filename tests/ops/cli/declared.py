"""Lifecycles for the tests of the command line: keys of every kind, with and without history, guards and a tenant."""

from enum import StrEnum

from raceproof import Lifecycle, column, move, sql


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"
    DONE = "DONE"
    SEND_FAILED = "SEND_FAILED"


class Command(Lifecycle[Status], table="commands", key="cmd_id", revision="rev", history="raceproof_history"):
    """A text key, a history, and columns that a move may set."""

    send = move(Status.QUEUED, Status.SEND_FAILED, to=Status.SENT)
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)
    finish = move(Status.QUEUED, Status.SENT, Status.ACK, to=Status.DONE, sets=("duration_ms", "note"))
    fail_sending = move(Status.QUEUED, to=Status.SEND_FAILED)


class Stage(StrEnum):
    NEW = "NEW"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class Job(Lifecycle[Stage], table="jobs", key="id", history="raceproof_history"):
    """An int key and a guard that can be told from the row."""

    start = move(Stage.NEW, to=Stage.RUNNING, where=column("attempts") < 3)
    end = move(Stage.RUNNING, to=Stage.ENDED)


class Ticket(Lifecycle[Stage], table="tickets", key="id"):
    """A uuid key, no history."""

    start = move(Stage.NEW, to=Stage.RUNNING)
    end = move(Stage.RUNNING, to=Stage.ENDED)


class Line(Lifecycle[Stage], table="lines", key=("order_id", "position"), tenant="shop"):
    """A key of two columns, and a tenant."""

    start = move(Stage.NEW, to=Stage.RUNNING)
    end = move(Stage.RUNNING, to=Stage.ENDED)


class Payment(Lifecycle[Stage], table="payments"):
    """A guard that only an SQL database can decide."""

    start = move(Stage.NEW, to=Stage.RUNNING, where=sql("amount % 2 = {rest}", rest=0))
    end = move(Stage.RUNNING, to=Stage.ENDED)
