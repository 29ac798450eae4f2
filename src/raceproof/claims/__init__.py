"""Claims: rows of work taken exclusively, for a lease on the store's clock, with a fence that grows with every claim.

Promise: at most one unexpired claim on a row (P3); a write with an older fence than the newest is refused (P4); only the
current holder can renew, give back or finish (P5); a row whose holder has died is found again by the next claim (P13).
Not promised: that an old holder has stopped working; it learns that it has lost the row when it next writes.
"""

from raceproof.claims.answers import Claim, DeadLettered, GivenBack, HeldClaim, Released, Renewal, Taken
from raceproof.declare.claim_forms import ClaimColumns, TextMarker, TimestampClaim

__all__ = [
    "Claim",
    "ClaimColumns",
    "DeadLettered",
    "GivenBack",
    "HeldClaim",
    "Released",
    "Renewal",
    "Taken",
    "TextMarker",
    "TimestampClaim",
]
