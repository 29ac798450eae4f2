"""A live view of a store in the terminal: lifecycles, claims, races, leaders, inboxes, stuck work. It only reads."""

from raceproof.ops.top.app import Top
from raceproof.ops.top.watch import Look, Watch

__all__ = ["Look", "Top", "Watch"]
