"""From what the store found and did to the answer for the caller: the same few lines for every store."""

from collections.abc import Sequence
from typing import Any

from raceproof.moves.request import MoveRequest
from raceproof.outcome import Already, Answer, Conflict, Lost, Missing, Moved, Refused, Unknown
from raceproof.spec import Move
from raceproof.statuses import text_of_status

# The guards of a call as bits of one number, so that every store can say in one value which of them did not hold.
FENCE = 1
REVISION = 2
FIRST_PREDICATE = 4


def moved(
    request: MoveRequest,
    before: str,
    revision: Any,
    row: Any,
    replayed: bool = False,
    fenced_off: str | None = None,
) -> Answer[Any, Any]:
    move = request.move
    status = move.lifecycle.status_of.get(before, before)
    return Moved(request.key, move, status, revision, row, replayed, fenced_off)


def moved_with(request: MoveRequest, before: str, revision: Any, returned: Sequence[Any]) -> Answer[Any, Any]:
    """The same with what the statement returned: who held the row, where the move ends a claim, and the wanted columns."""
    if not request.ended:
        return moved(request, before, revision, returned or None)
    return moved(request, before, revision, returned[1:] or None, fenced_off=returned[0])


def not_moved(
    request: MoveRequest, before: str, revision: Any, fence: Any, unmet: int, by: str | None = None
) -> Answer[Any, Any]:
    """Why the row did not move.

    What the caller asked of the row comes before `Already`: it may be an authorization or an optimistic lock. A holder gets
    `Already` only if the row still carries its fence, so it moved the row itself. Declared guards do not count at the
    target, because the move itself may have made them false.
    """
    move = request.move
    member = move.lifecycle.status_of.get(before, before)
    status = text_of_status(member)
    if unmet & FENCE:
        return Lost(request.key, move, member, fence, revision, by)
    asked = unmet & ~declared_guards(move)
    if status == move.target and not asked:
        return Already(request.key, move, revision, by)
    if status not in move.sources:
        unmet = asked
    return Refused(request.key, move, member, revision, unmet_names(request, unmet), by)


def declared_guards(move: Move[Any]) -> int:
    """The bits of the guards in the declaration; those of a call come after them."""
    return FIRST_PREDICATE * ((1 << len(move.where)) - 1)


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


def again(request: MoveRequest, first: Answer[Any, Any]) -> Answer[Any, Any] | None:
    """The answer for a key that one bulk names a second time: what a second call right after the first would get.

    None if only the store can say: the move may have made false what the caller asked of the row.
    """
    if not isinstance(first, Moved):
        return first
    guarded = request.revision is not None or len(request.where) > len(request.move.where)
    if guarded or request.fence_column in request.clears:
        return None
    return Already(request.key, request.move, first.revision, request.by)
