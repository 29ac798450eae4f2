"""What runs in the background: workers that claim and finish, leaders, and schedules."""

from raceproof.run.leader import Leader, NotLeading, Role
from raceproof.run.limit import ConcurrencyLimit
from raceproof.run.scheduler import Scheduler, Schedules
from raceproof.run.worker import Failure, Finished, Worker

__all__ = [
    "ConcurrencyLimit",
    "Failure",
    "Finished",
    "Leader",
    "NotLeading",
    "Role",
    "Scheduler",
    "Schedules",
    "Worker",
]
