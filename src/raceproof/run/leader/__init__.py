"""One process leads, the others stand by; see `leader.py`, and `machine.py` for the rules of its loop."""

from raceproof.run.leader.leader import Leader, NotLeading
from raceproof.run.leader.machine import Role

__all__ = ["Leader", "NotLeading", "Role"]
