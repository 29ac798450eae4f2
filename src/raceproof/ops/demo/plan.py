"""What happens to each command, drawn from a seed before the race: both sides live through the same.

Durations are seconds. They are what such work takes with a broker and devices in the same building; nothing waits for
the moment at which it would do harm.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random

from raceproof.ops.demo.commands import Status

PUBLISHING = (0.003, 0.008)
"""From handing a message to the broker until its confirmation is back."""
HANDLING = (0.001, 0.003)
"""From reading an answer until it is recorded: decode it, check it, log it."""
DEADLINE = 0.4
"""A command that has not ended this long after it was due has timed out."""

_ENDS = (Status.DONE, Status.NO_EFFECT, Status.ERROR, Status.INVALID, Status.BUSY)
_END_WEIGHTS = (76, 6, 8, 4, 6)


class Sending(Enum):
    """How the first attempt to publish ends."""

    CONFIRMED = "confirmed"
    NOT_DELIVERED = "not delivered"
    CONFIRMATION_LOST = "delivered, but the confirmation was lost"


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """A message from a device, so long after the command has reached it."""

    after: float
    status: Status
    handling: float


@dataclass(frozen=True, slots=True)
class Fate:
    """Everything that chance decides for one command."""

    cmd_id: str
    due: float
    publishing: float
    sending: Sending
    publishing_again: float
    answers: tuple[DeviceAnswer, ...]
    alerting: float
    """What the sweeper needs to tell an operator about a command that timed out."""


def fates(seed: int, commands: int, span: float, delay: float) -> list[Fate]:
    """The fates of so many commands that fall due over `span` seconds; `delay` multiplies what the work takes."""
    return [_fate(Random(f"{seed}/{number}"), number, span * number / commands, delay) for number in range(commands)]


def _fate(chance: Random, number: int, due: float, delay: float) -> Fate:
    return Fate(
        cmd_id=f"c-{number + 1:04d}",
        due=due,
        publishing=chance.uniform(*PUBLISHING) * delay,
        sending=chance.choices(tuple(Sending), (86, 7, 7))[0],
        publishing_again=chance.uniform(*PUBLISHING) * delay,
        answers=tuple(_answers(chance, delay)),
        alerting=chance.uniform(*HANDLING) * delay,
    )


def _answers(chance: Random, delay: float) -> list[DeviceAnswer]:
    """Most devices answer at once, some around the deadline, a few never; a broker delivers at least once."""
    acknowledged = chance.uniform(0.0005, 0.006)
    match chance.choices(("quick", "slow", "silent"), (76, 18, 6)):
        case ["quick"]:
            ended = acknowledged + chance.uniform(0.001, 0.010)
        case ["slow"]:
            ended = DEADLINE + chance.uniform(-0.03, 0.05)
        case _:
            return []
    answers = _copies(chance, delay, ended, chance.choices(_ENDS, _END_WEIGHTS)[0])
    if chance.random() < 0.75:
        answers += _copies(chance, delay, acknowledged, Status.ACK)
    return answers


def _copies(chance: Random, delay: float, after: float, status: Status) -> list[DeviceAnswer]:
    moments = [after]
    if chance.random() < 0.6:
        moments.append(after + chance.uniform(0, 0.004))
    return [DeviceAnswer(moment, status, chance.uniform(*HANDLING) * delay) for moment in moments]
