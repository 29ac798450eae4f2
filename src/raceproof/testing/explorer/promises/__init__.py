"""Ready-made invariants: what the library promises (P1–P10, P13), about the things that a scenario has declared.

    keeps_moves(world, Job)
    keeps_claims(world, Job.work)
    recovers(world, Job.work)

They look at rows, effects and answers as any of the stores has them. P14 needs none of its own: it is these, with
cancellations among the faults; and P12 is these, with lost acknowledgements, and `keeps_calls`.
"""

from raceproof.testing.explorer.promises.attempts import keeps_attempts
from raceproof.testing.explorer.promises.claims import keeps_claims, late_writers, recovers, writes_once
from raceproof.testing.explorer.promises.deliveries import delivers, keeps_deliveries
from raceproof.testing.explorer.promises.inbox import keeps_inbox
from raceproof.testing.explorer.promises.leases import keeps_lease
from raceproof.testing.explorer.promises.moves import keeps_calls, keeps_moves
from raceproof.testing.explorer.promises.values import at_each_step, number, outcomes, rows_of, seconds, text, told

__all__ = [
    "at_each_step",
    "delivers",
    "keeps_attempts",
    "keeps_calls",
    "keeps_claims",
    "keeps_deliveries",
    "keeps_inbox",
    "keeps_lease",
    "keeps_moves",
    "late_writers",
    "number",
    "outcomes",
    "recovers",
    "rows_of",
    "seconds",
    "text",
    "told",
    "writes_once",
]
