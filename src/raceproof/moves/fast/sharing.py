"""Which moves that are called at the same time can share one statement.

The rule: calls of one shape, each row once. What a shared statement does not answer is asked for alone.
"""

from typing import Any

from raceproof.kernel.batcher import MAX_BATCH, Waiting
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest

Calls = Waiting[MoveRequest, Answer[Any, Any]]


def can_share(request: MoveRequest) -> bool:
    """Whether the call has nothing of its own that others cannot have: a guard, a time, an earlier call to look for."""
    return not request.repeat and request.where is request.move.where and request.now is None


def of_one_shape(waiting: Calls) -> tuple[Calls, Calls]:
    """Those that can share a statement with the one that waits longest, each row once; and those that cannot."""
    batch: Calls = []
    later: Calls = []
    rows = set()
    shape = None
    for entry in waiting:
        request, future = entry
        if future.done():
            continue
        if shape is None:
            shape = request.shape
        if len(batch) < MAX_BATCH and request.parts not in rows and request.shape == shape:
            rows.add(request.parts)
            batch.append(entry)
        else:
            later.append(entry)
    return batch, later
