"""From what the store found and did to the answer for the caller: the same few lines for every store."""

from typing import Any

from raceproof.moves.request import MoveRequest
from raceproof.outcome import Already, Answer, Conflict, Lost, Missing, Moved, Refused, Unknown

# The guards of a call as bits of one number, so that every store can say in one value which of them did not hold.
FENCE = 1
REVISION = 2
FIRST_PREDICATE = 4


def moved(
    request: MoveRequest, before: str, revision: Any, row: Any, replayed: bool = False
) -> Answer[Any, Any]:
    move = request.move
    return Moved(request.key, move, move.lifecycle.status_of.get(before, before), revision, row, replayed)


def not_moved(
    request: MoveRequest, before: str, revision: Any, fence: Any, unmet: int, by: str | None = None
) -> Answer[Any, Any]:
    """Why the row did not move. A lost fence comes first: its holder has no business with the rest.

    A row at the target with no fence at all was ended by its holder, in a form that clears it: it is there already.
    """
    move = request.move
    status = move.lifecycle.status_of.get(before, before)
    if unmet & FENCE and not (fence is None and status == move.target):
        return Lost(request.key, move, status, fence, revision, by)
    if status == move.target:
        return Already(request.key, move, revision, by)
    if status not in move.sources:
        return Refused(request.key, move, status, revision, (), by)
    return Refused(request.key, move, status, revision, unmet_names(request, unmet), by)


def missing(request: MoveRequest) -> Answer[Any, Any]:
    return Missing(request.key, request.move)


def unknown(request: MoveRequest, cause: BaseException) -> Answer[Any, Any]:
    return Unknown(request.key, request.move, request.call, cause)


def conflict(request: MoveRequest, cause: BaseException) -> Answer[Any, Any]:
    return Conflict(request.key, request.move, cause)


def unmet_names(request: MoveRequest, unmet: int) -> tuple[str, ...]:
    """The guards that did not hold, in words."""
    names = []
    if unmet & REVISION:
        names.append(f"revision = {request.revision}")
    bit = FIRST_PREDICATE
    for predicate in request.where:
        if unmet & bit:
            names.append(str(predicate))
        bit *= 2
    return tuple(names)


def again(request: MoveRequest, first: Answer[Any, Any]) -> Answer[Any, Any]:
    """The answer for a key that one bulk names a second time: what a second call right after the first would get."""
    if isinstance(first, Moved):
        return Already(request.key, request.move, first.revision, request.by)
    return first
