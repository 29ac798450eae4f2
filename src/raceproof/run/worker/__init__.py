"""Claim, run, finish. `worker.py` is the loop; the other modules are its parts."""

from raceproof.run.worker.finishing import Failure, Finished
from raceproof.run.worker.worker import Worker

__all__ = ["Failure", "Finished", "Worker"]
