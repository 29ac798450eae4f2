"""Who races. Each actor is a process of its own, written once and run on both sides.

The dispatcher hands a command to the broker and records SENT when the broker has confirmed; the device may have answered
by then. The handlers take the devices' answers in turn, each often twice. The sweeper and the re-sender go by what they
find in the table.
"""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing.queues import Queue
from queue import Empty

from raceproof.declare import Move
from raceproof.ops.demo.commands import ANSWERS, OPEN, Command, Status
from raceproof.ops.demo.plan import DEADLINE, DeviceAnswer, Fate, Sending
from raceproof.ops.demo.sides import Side, Work

PAUSE = 0.005
SWEEP_PAUSE = 0.025


@dataclass(frozen=True)
class Desk:
    """What an actor works with."""

    side: Side
    fates: dict[str, Fate]
    published: "Queue[str]"
    """The broker's queue to the devices."""
    answers: "Queue[tuple[str, DeviceAnswer]]"
    """The broker's queue back."""
    now: Callable[[], float]
    """Seconds since the start."""
    ended: Callable[[], bool]
    count: Callable[[str], None]

    def record(self, move: Move[Status], cmd_id: str, work: Work) -> None:
        self.count(self.side.record(move, cmd_id, work))


def dispatch(desk: Desk) -> None:
    """Publish what is due, then record SENT, or SEND_FAILED if the broker has not confirmed."""
    while not desk.ended():
        for cmd_id in desk.side.find([Status.QUEUED], desk.now()):
            fate = desk.fates[cmd_id]

            def publish(fate: Fate = fate) -> None:
                if fate.sending is not Sending.NOT_DELIVERED:
                    desk.published.put(fate.cmd_id)
                time.sleep(fate.publishing)

            confirmed = fate.sending is Sending.CONFIRMED
            desk.record(Command.send if confirmed else Command.fail_sending, cmd_id, publish)
            if desk.ended():
                return
        time.sleep(PAUSE)


def resend(desk: Desk) -> None:
    """Publish again what could not be sent, then record SENT."""
    while not desk.ended():
        for cmd_id in desk.side.find([Status.SEND_FAILED], desk.now()):
            fate = desk.fates[cmd_id]

            def publish(fate: Fate = fate) -> None:
                desk.published.put(fate.cmd_id)
                time.sleep(fate.publishing_again)

            desk.record(Command.send, cmd_id, publish)
        time.sleep(PAUSE)


def sweep(desk: Desk) -> None:
    """Record TIMEOUT for commands that have not ended in time."""
    while not desk.ended():
        for cmd_id in desk.side.find(OPEN, desk.now() - DEADLINE):
            alerting = desk.fates[cmd_id].alerting
            desk.record(Command.time_out, cmd_id, partial(time.sleep, alerting))
        time.sleep(SWEEP_PAUSE)


def handle(desk: Desk) -> None:
    """Record the answers of devices, one after the other."""
    while not desk.ended():
        try:
            cmd_id, answer = desk.answers.get(timeout=0.05)
        except Empty:
            continue
        desk.record(ANSWERS[answer.status], cmd_id, partial(time.sleep, answer.handling))


def answer(desk: Desk) -> None:
    """All devices: each command that arrives is answered as its fate says. Has nothing to do with the database."""
    waiting: list[tuple[float, int, str, DeviceAnswer]] = []
    number = count()
    while not desk.ended():
        now = desk.now()
        while waiting and waiting[0][0] <= now:
            _, _, cmd_id, message = heapq.heappop(waiting)
            desk.answers.put((cmd_id, message))
        try:
            wait = min(0.05, waiting[0][0] - now) if waiting else 0.05
            arrived = desk.published.get(timeout=max(0.0, wait))
        except Empty:
            continue
        for message in desk.fates[arrived].answers:
            heapq.heappush(waiting, (desk.now() + message.after, next(number), arrived, message))


def cast(handlers: int) -> dict[str, Callable[[Desk], None]]:
    """The actors of one side, by their names."""
    return {
        "devices": answer,
        "dispatcher": dispatch,
        **{f"handler-{number}": handle for number in range(1, handlers + 1)},
        "sweeper": sweep,
        "re-sender": resend,
    }
