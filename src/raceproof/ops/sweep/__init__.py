"""Housekeeping: not needed for correctness, run it periodically. `sweep(store, …)`, awaited on an async store.

Promise: every step is bounded and commits by itself, so a sweep blocks no other work and can be stopped anywhere and
restarted. Rows with expired leases are counted and left alone: the next claim takes them. Concurrent sweeps are safe.
Not promised: that nothing is left, because rows keep coming while it runs.
"""

from raceproof.ops.sweep.search import overdue, spent_rows, unsearchable
from raceproof.ops.sweep.spent import SpentRow
from raceproof.ops.sweep.steps import Sweepable, SweepOptions, Swept, sweep

__all__ = ["SpentRow", "SweepOptions", "Sweepable", "Swept", "overdue", "spent_rows", "sweep", "unsearchable"]
