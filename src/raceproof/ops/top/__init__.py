"""A store in a terminal, live: lifecycles, claims, races, leaders, inboxes, and what is stuck. It only reads."""

from raceproof.ops.top.app import Top
from raceproof.ops.top.watch import Look, Watch

__all__ = ["Look", "Top", "Watch"]
