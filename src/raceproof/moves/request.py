"""One call of a move: checked against its declaration before the store hears of it, and the answers it can have."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.declare.predicate import Predicate, Where, predicates
from raceproof.declare.spec import Claimable, Move
from raceproof.declare.statuses import text_of_status
from raceproof.kernel.answers import Conflict, Lost, Missing, Unknown
from raceproof.kernel.arguments import Returning, check_set, check_texts, returned_columns
from raceproof.kernel.errors import CallError
from raceproof.kernel.identity import next_call
from raceproof.kernel.keys import KeyParts, is_clean, key_parts
from raceproof.moves.answers import Already, Answer, Moved, Refused

_NOTHING: Mapping[str, Any] = {}

# The guards of a call as bits of one number, so that every store can say in one value which of them do not hold.
FENCE = 1
REVISION = 2
FIRST_PREDICATE = 4


def declared_guards(move: Move[Any]) -> int:
    """The bits of the guards in the declaration; those of a call come after them."""
    return FIRST_PREDICATE * ((1 << len(move.where)) - 1)


@dataclass(slots=True)
class MoveRequest:
    """What is asked: which move, of which row, and everything that goes along with it."""

    move: Move[Any]
    key: Any
    parts: KeyParts
    set: Mapping[str, Any]
    where: tuple[Predicate, ...]
    by: str | None
    reason: str | None
    fence: Any
    revision: int | None
    call: str | None
    repeat: bool
    returning: tuple[str, ...]
    row_type: type[Any] | None
    now: datetime | None
    shape: Hashable
    """Calls of the same shape have the same statement text, and can share one statement; a plain call's is its move."""
    fence_column: str | None = None
    """The column that must still carry the caller's fence."""
    clears: tuple[str, ...] = ()
    """Columns of a claim that ends with this move."""
    claim: Claimable[Any] | None = None
    """What kind of claim the caller holds."""
    ended: tuple[Claimable[Any], ...] = ()
    """Claims that end with this move, whoever holds them; the caller does not."""

    def of_claim(self, claim: Claim[Any, Any], parts: KeyParts) -> "MoveRequest":
        """The same call for another claim of the same kind: what was checked once need not be checked again."""
        return MoveRequest(
            self.move,
            claim.key,
            parts,
            self.set,
            self.where,
            claim.by,
            self.reason,
            claim.fence,
            self.revision,
            next_call() if self.call else None,
            False,
            self.returning,
            self.row_type,
            self.now,
            self.shape,
            self.fence_column,
            self.clears,
            self.claim,
            self.ended,
        )

    def stored(self, parts: KeyParts, set: Mapping[str, Any], where: tuple[Predicate, ...]) -> "MoveRequest":
        """The same call with its values as the columns store them."""
        shape = self.shape
        if isinstance(shape, tuple):
            shape = (*shape[:2], tuple([predicate.text("") for predicate in where]), *shape[3:])
        return replace(self, parts=parts, set=set, where=where, shape=shape)

    # Its answers

    def moved(
        self, before: str, revision: Any, row: Any, replayed: bool = False, fenced_off: str | None = None
    ) -> Answer[Any, Any]:
        status = self.move.lifecycle.status_of.get(before, before)
        return Moved(self.key, self.move, status, revision, row, replayed, fenced_off)

    def moved_row(self, before: str, revision: Any, returned: Sequence[Any]) -> Answer[Any, Any]:
        """The same with what the statement returned: who held the row, if the move ends a claim, and the wanted columns."""
        if not self.ended:
            return self.moved(before, revision, returned or None)
        return self.moved(before, revision, returned[1:] or None, fenced_off=returned[0])

    def not_moved(self, before: str, revision: Any, fence: Any, unmet: int, by: str | None = None) -> Answer[Any, Any]:
        """Why the row did not move.

        What the caller asked of the row comes before `Already`: it may be an authorization or an optimistic lock. A holder
        gets `Already` only if the row still carries its fence, so it moved the row itself. Declared guards do not count at
        the target, because the move itself may have made them false.
        """
        move = self.move
        member = move.lifecycle.status_of.get(before, before)
        status = text_of_status(member)
        if unmet & FENCE:
            return Lost(self.key, move, member, fence, revision, by)
        asked = unmet & ~declared_guards(move)
        if status == move.target and not asked:
            return Already(self.key, move, revision, by)
        if status not in move.sources:
            unmet = asked
        return Refused(self.key, move, member, revision, self._unmet_names(unmet), by)

    def _unmet_names(self, unmet: int) -> tuple[str, ...]:
        """The guards that do not hold, in words."""
        names = [f"revision = {self.revision}"] if unmet & REVISION else []
        names += [str(one) for i, one in enumerate(self.where) if unmet & FIRST_PREDICATE << i]
        return tuple(names)

    def missing(self) -> Answer[Any, Any]:
        return Missing(self.key, self.move)

    def unknown(self, error: BaseException) -> Answer[Any, Any]:
        return Unknown(self.key, self.move, self.call, error.__cause__ or error)

    def conflict(self, error: BaseException) -> Answer[Any, Any]:
        return Conflict(self.key, self.move, error.__cause__ or error)

    def again(self, first: Answer[Any, Any]) -> Answer[Any, Any] | None:
        """The answer for a key that a bulk names a second time: what a second call right after the first would get.

        None if only the store can say: the move may have made false what the caller asked of the row.
        """
        if not isinstance(first, Moved):
            return first
        guarded = self.revision is not None or len(self.where) > len(self.move.where)
        if guarded or self.fence_column in self.clears:
            return None
        return Already(self.key, self.move, first.revision, self.by)

    def finished(self, answer: "Answer[Any, Any]") -> "Answer[Any, Any]":
        """The answer with the returned columns in the form that the caller asked for."""
        if not isinstance(answer, Moved) or answer.row is None:
            return answer
        named = dict(zip(self.returning, answer.row, strict=True))
        try:
            return replace(answer, row=self.row_type(**named) if self.row_type else named)
        except Exception as error:
            error.add_note(f"raceproof: {answer}; what failed is making {self.row_type} of its columns")
            raise


def request(
    move: Move[Any],
    key: Any,
    *,
    tenant: Any = None,
    set: Mapping[str, Any] | None = None,
    where: Where = (),
    by: str | None = None,
    reason: str | None = None,
    fence: int | None = None,
    revision: int | None = None,
    call: str | None = None,
    returning: Returning = None,
    now: datetime | None = None,
) -> MoveRequest:
    """Check a call; every error here comes before anything was sent."""
    if isinstance(move, Claimable):
        raise CallError(f"{move} is a claim, and this takes a move; its moves are {', '.join(move.lifecycle.moves)}")
    if not isinstance(move, Move):
        raise CallError(f"{move!r} is not a move; pass one that a lifecycle declares, as in Command.ack")
    spec = move.lifecycle
    fence_column = spec.fence
    clears: tuple[str, ...] = ()
    claim: Claimable[Any] | None = None
    ended = move.ends
    if type(key) is Claim:
        claim = _own_claimable(move, key)
        ended = ()  # a holder ends its own claim; whether there is another kind beside it is not for it to say
        fence, fence_column, clears, tenant = _of_claim(move, key, fence, set, tenant)
        by = key.by if by is None else by
        key = key.key
    elif fence is not None and type(fence) is not int:
        raise CallError(f"{move}: fence= is a whole number, not {fence!r}")
    if set and (unknown := [column for column in set if column not in move.sets]):
        raise CallError(
            f"{move} may not set {', '.join(map(repr, unknown))}; it declares sets={list(move.sets)}, add the column there"
        )
    if set:
        check_set(move, set)
    if revision is not None and type(revision) is not int:
        raise CallError(f"{move}: revision= is a whole number, not {revision!r}")
    if fence is not None and fence_column is None:
        raise CallError(f"{move}: a fence was given, but the lifecycle declares no fence= column")
    if revision is not None and spec.revision is None:
        raise CallError(f"{move}: a revision was given, but the lifecycle declares no revision= column")
    if call is not None and spec.history is None:
        raise CallError(f"{move}: call= is remembered in the history, but the lifecycle declares none")
    if now is not None and now.tzinfo is None:
        raise CallError(f"{move}: now= must have a time zone, as in datetime.now(timezone.utc)")
    if by is not None or reason is not None or call is not None:
        check_texts(move, (by, reason, call))
    names, row_type = ((), None) if returning is None else returned_columns(move, returning)
    where = move.where if isinstance(where, tuple) and not where else move.where + predicates(where)
    shape: Hashable = move
    if set or where or names or fence is not None or revision is not None or now is not None:
        texts = tuple([predicate.text("") for predicate in where])
        shape = (
            move,
            tuple(set or ()),
            texts,
            fence is not None,
            revision is not None,
            names,
            now is not None,
            fence_column,
            clears,
            claim,
        )
    return MoveRequest(
        move,
        key,
        (key,) if type(key) is str and spec.plain_key and is_clean(key) else key_parts(spec, key, tenant),
        set or _NOTHING,
        where,
        by,
        reason,
        fence,
        revision,
        call or (next_call() if spec.history else None),
        call is not None,
        names,
        row_type,
        now,
        shape,
        fence_column,
        clears,
        claim,
        ended,
    )


def of_claims(first: MoveRequest, claims: Sequence[Claim[Any, Any]]) -> list[MoveRequest]:
    """A request for each of many claims of one kind, like the first."""
    spec = first.move.lifecycle
    plain = spec.plain_key
    return [first.of_claim(one, (one.key,) if plain else key_parts(spec, one.key, one.tenant)) for one in claims]


def _own_claimable(move: Move[Any], claim: Claim[Any, Any]) -> Claimable[Any]:
    """What the claim is of, in the lifecycle of the move; a claim that was pickled or copied may bring another object."""
    spec, of = move.lifecycle, claim.declared
    if of.lifecycle is spec:
        return of
    found = spec.claims.get(of.name)
    if found is None or not found.means(of):
        raise CallError(f"{move}: this claim is of {of}, which belongs to another lifecycle")
    return found


def _of_claim(
    move: Move[Any], claim: Claim[Any, Any], fence: Any, set: Mapping[str, Any] | None, tenant: Any
) -> tuple[Any, str, tuple[str, ...], Any]:
    """What a claim adds to a move: its fence, and, where the move leads away from it, its end."""
    if fence is not None:
        raise CallError(f"{move}: a claim brings its own fence; leave fence= out")
    if claim.fence is None:
        raise CallError(f"{move}: {claim!r} has no fence, so no store has given it")
    form = claim.declared.form
    clears: tuple[str, ...] = ()
    if move.target not in claim.declared.held:
        written = (*move.stamp, *(set or ()))
        clears = tuple([column for column in form.cleared if column not in written])
    return claim.fence, form.fence_column, clears, tenant if claim.tenant is None else claim.tenant
