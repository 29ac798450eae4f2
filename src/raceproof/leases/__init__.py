"""Leases: one holder at a time, by the store's clock; the row with its holder and epoch is the truth.

Promise: at most one process holds the current epoch; renewals match holder and epoch; an epoch is never used twice; writes
that carry an older epoch are refused (P10). Not promised: that two processes never both believe that they lead.
"""

from raceproof.leases.answers import LeaseAnswer, LeaseGranted, LeaseHeldByOther, LeaseReleased, ReleaseAnswer
from raceproof.leases.declared import Lease

__all__ = ["Lease", "LeaseAnswer", "LeaseGranted", "LeaseHeldByOther", "LeaseReleased", "ReleaseAnswer"]
