"""What nobody needs for correctness, but somebody has to do now and then: `sweep(store, …)`, or `asweep` on an async store.

Promise: every step is bounded and committed by itself, so a sweep holds up nobody and may be stopped anywhere and begun
again. Rows whose lease is over are counted and left: the next claim takes them by itself. Several sweeps at once are safe.
Not promised: that nothing is left, for rows keep coming while it runs.
"""

from raceproof.sweep.finding import overdue, spent_rows, unsearchable
from raceproof.sweep.spent import SpentRow
from raceproof.sweep.sweeping import Sweepable, SweepOptions, Swept, asweep, sweep

__all__ = [
    "SpentRow",
    "SweepOptions",
    "Sweepable",
    "Swept",
    "asweep",
    "overdue",
    "spent_rows",
    "sweep",
    "unsearchable",
]
