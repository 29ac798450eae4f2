"""The explorer: every interleaving, crash and lost acknowledgement of a few processes, on the SQL that runs in production.

A scenario declares processes, what they do outside of the store, and what must hold. The explorer tries schedules, best
first, and prints the failing one with the fewest deviations; or it hands out a certificate of what it has exhausted.
"""

from raceproof.testing.explorer.connection import Connection, StoreUnreachable
from raceproof.testing.explorer.entry import ExplorationFailed, Explored, explore, explored, world_of
from raceproof.testing.explorer.loop import NotExplorable
from raceproof.testing.explorer.search import Explorer, NotDeterministic
from raceproof.testing.explorer.verdict import Limits, Verdict
from raceproof.testing.explorer.world import Call, Effect, EffectRefused, EffectUnknown, Moment, World

__all__ = [
    "Call",
    "Connection",
    "Effect",
    "EffectRefused",
    "EffectUnknown",
    "ExplorationFailed",
    "Explored",
    "Explorer",
    "Limits",
    "Moment",
    "NotDeterministic",
    "NotExplorable",
    "StoreUnreachable",
    "Verdict",
    "World",
    "explore",
    "explored",
    "world_of",
]
