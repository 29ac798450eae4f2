"""Claim → run → finish: `worker.py`. What bounds it over processes: `limit.py`. By the clock: `schedule.py`."""

from raceproof.worker.finishing import Failure, Finished
from raceproof.worker.limit import Limit
from raceproof.worker.schedule import Scheduler, Schedules, schedule_ddl
from raceproof.worker.worker import Worker

__all__ = ["Failure", "Finished", "Limit", "Scheduler", "Schedules", "Worker", "schedule_ddl"]
