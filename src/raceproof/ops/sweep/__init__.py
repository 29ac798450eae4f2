"""Housekeeping: not needed for correctness, run it periodically. `sweep(store, …)`, awaited on an async store.

Promise: every step is bounded and committed by itself, so a sweep holds up nobody and may be stopped anywhere and begun
again. Rows whose lease is over are counted and left: the next claim takes them by itself. Several sweeps at once are safe.
Not promised: that nothing is left, for rows keep coming while it runs.
"""

from raceproof.ops.sweep.search import overdue, spent_rows, unsearchable
from raceproof.ops.sweep.spent import SpentRow
from raceproof.ops.sweep.steps import Sweepable, SweepOptions, Swept, sweep

__all__ = ["SpentRow", "SweepOptions", "Sweepable", "Swept", "overdue", "spent_rows", "sweep", "unsearchable"]
