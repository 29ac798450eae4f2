"""One call of a move, checked against its declaration before the store hears of it."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from raceproof.errors import CallError
from raceproof.identity import next_call
from raceproof.outcome import Answer, Claim, Moved
from raceproof.predicate import Column, Predicate, Where, predicates
from raceproof.spec import Claimable, Move, Spec

KeyParts = tuple[Any, ...]
_NOTHING: Mapping[str, Any] = {}
Returning = type[Any] | Iterable[str] | None


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
        raise CallError(
            f"{move} is a claim, and this takes a move; its moves are {', '.join(move.lifecycle.moves)}"
        )
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
        (key,) if type(key) is str and spec.plain_key and _clean(key) else key_parts(spec, key, tenant),
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
    return [
        first.of_claim(one, (one.key,) if plain else key_parts(spec, one.key, one.tenant)) for one in claims
    ]


def _own_claimable(move: Move[Any], claim: Claim[Any, Any]) -> Claimable[Any]:
    """What the claim is of, in the lifecycle of the move; a claim that was pickled or copied may bring another object."""
    spec, of = move.lifecycle, claim.move
    if of.lifecycle is spec:
        return of
    found = spec.claims.get(of.name)
    if found is None or not found.means(of):
        raise CallError(f"{move}: this claim is of {of}, which belongs to another lifecycle")
    return found


def check_set(asked: object, columns: Mapping[str, Any]) -> None:
    """A value is a parameter of the statement: an expression would reach the driver as an object it does not know."""
    for column, value in columns.items():
        if isinstance(value, Predicate | Column):
            raise CallError(
                f"{asked}: {column!r} takes a value, not the expression {value}; compute the value first, "
                "or pass the expression as a guard in where="
            )


def _of_claim(
    move: Move[Any], claim: Claim[Any, Any], fence: Any, set: Mapping[str, Any] | None, tenant: Any
) -> tuple[Any, str, tuple[str, ...], Any]:
    """What a claim adds to a move: its fence, and, where the move leads away from it, its end."""
    if fence is not None:
        raise CallError(f"{move}: a claim brings its own fence; leave fence= out")
    if claim.fence is None:
        raise CallError(f"{move}: {claim!r} has no fence, so no store has given it")
    form = claim.move.form
    clears: tuple[str, ...] = ()
    if move.target not in claim.move.held:
        written = (*move.stamp, *(set or ()))
        clears = tuple([column for column in form.cleared if column not in written])
    return claim.fence, form.fence_column, clears, tenant if claim.tenant is None else claim.tenant


def check_texts(move: object, texts: Iterable[Any]) -> None:
    for text in texts:
        if text is not None and (not isinstance(text, str) or not _clean(text)):
            raise CallError(f"{move}: by=, reason= and call= are valid texts without NUL, not {text!r}")


_SCALARS = (str, int, UUID)


def key_parts(spec: Spec[Any], key: Any, tenant: Any) -> KeyParts:
    """A key as one value for each key column, the tenant first."""
    return keyed_parts(spec, spec.key, spec.tenant, key, tenant)


def all_key_parts(spec: Spec[Any], keys: Iterable[Any], tenant: Any) -> list[KeyParts]:
    """The same for many keys."""
    keys = list(keys)
    if spec.plain_key and set(map(type, keys)) == {int}:
        return list(zip(keys, strict=True))  # nothing about a number needs a look
    return [key_parts(spec, key, tenant) for key in keys]


def keyed_parts(
    asked: object, columns: tuple[str, ...], tenants: str | None, key: Any, tenant: Any
) -> KeyParts:
    """The same for anything that finds its rows by these columns."""
    if not tenants and len(columns) == 1 and (type(key) is int or (type(key) is str and _clean(key))):
        return (key,)  # the usual case, told at once
    parts: KeyParts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(columns):
        expected = columns[0] if len(columns) == 1 else "a tuple (" + ", ".join(columns) + ")"
        raise CallError(f"{asked}: a key is {expected}, not {key!r}")
    if tenants:
        if tenant is None:
            raise CallError(f"{asked} has a tenant column: say whose rows with bind(…, tenant=…)")
        parts = (tenant, *parts)
    for part in parts:
        if not isinstance(part, _SCALARS) or isinstance(part, bool):
            raise CallError(f"{asked}: a key is text, int or UUID, or a tuple of these, not {key!r}")
        if isinstance(part, str) and not _clean(part):
            raise CallError(f"{asked}: a key is valid Unicode without NUL, not {key!r}")
    return parts


def _clean(text: str) -> bool:
    """Whether a text is valid Unicode without NUL; half a surrogate pair is not."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def key_text(parts: KeyParts) -> str:
    """A key as one text, as it stands in the history and in Redis: parts joined by a colon, escaped so none can collide."""
    if len(parts) == 1:
        return str(parts[0])
    return ":".join(str(part).replace("%", "%25").replace(":", "%3A") for part in parts)


def returned_columns(
    move: object, returning: type[Any] | Iterable[str]
) -> tuple[tuple[str, ...], type[Any] | None]:
    if isinstance(returning, type):
        if not is_dataclass(returning):
            raise CallError(f"{move}: returning= takes a dataclass or names of columns, not {returning!r}")
        return tuple(one.name for one in fields(returning) if one.init), returning
    names = (returning,) if isinstance(returning, str) else tuple(returning)
    if not names:
        raise CallError(f"{move}: returning= names no column")
    return names, None
