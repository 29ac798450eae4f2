"""A lifecycle as plain, frozen facts: what everything else is derived from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from raceproof.declare.claim_forms import ClaimColumns, Form, form_to_data
from raceproof.declare.predicate import Predicate, to_data
from raceproof.kernel.errors import CallError, DeclarationError, RaceproofError

S = TypeVar("S", bound=str | Enum)

LONGEST = 100 * 366 * 86400.0
"""The longest lease or backoff in seconds: a hundred years from now is a time that every store can hold and compare."""


def is_seconds(value: object, *, zero: bool = False) -> bool:
    """Whether this is a time with an end, by which every store can count: a number of seconds, and of some."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= LONGEST or (zero and value == 0)


def is_count(value: object) -> bool:
    """Whether this is a whole number of times, one at least."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def check_seconds(what: str, value: object, error: type[RaceproofError] = DeclarationError) -> None:
    """P3: nothing lasts for ever, and nothing is over at once."""
    if not is_seconds(value):
        raise error(
            f"{what}={value!r} is not a time; give seconds as a number, more than 0 and a hundred years at most"
        )


@dataclass(frozen=True, slots=True)
class History:
    """Where accepted moves are written; with `losers`, refused ones too (who lost, and to what)."""

    table: str = "raceproof_history"
    losers: bool = False


@dataclass(frozen=True, slots=True)
class Expiry:
    """How many seconds Redis keeps a row: one that is open, from when it is made, and one that has ended, from then on."""

    open: float
    ended: float


@dataclass(frozen=True, eq=False, repr=False)
class Move(Generic[S]):
    """One named move: from any of `sources` to `target`. Made by `move(…)`, bound to its lifecycle by the class."""

    sources: tuple[S, ...]
    target: S
    stamp: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    where: tuple[Predicate, ...] = ()
    name: str = ""
    _spec: "Spec[S] | None" = field(default=None, repr=False)

    @property
    def lifecycle(self) -> "Spec[S]":
        if self._spec is None:
            raise CallError(
                f"this move to {self.target!r} belongs to no lifecycle; declare it as an attribute of a Lifecycle class"
            )
        return self._spec

    @cached_property
    def reaches(self) -> S:
        """The target as the caller's own member; `target` is its text where a member of the Enum is not text itself."""
        return self.target if self._spec is None else self._spec.member(self.target)

    @cached_property
    def ends(self) -> "tuple[Claimable[S], ...]":
        """The claims under which a row may be before this move, and is not afterwards."""
        claims = self.lifecycle.claims.values()
        return tuple(
            one for one in claims if self.target not in one.held and not set(one.held).isdisjoint(self.sources)
        )

    def __reduce__(self) -> Any:
        return (_move_of, (self._spec, self.name)) if self._spec else object.__reduce_ex__(self, 2)

    def __repr__(self) -> str:
        return f"<move {self}>"

    def __str__(self) -> str:
        return f"{self._spec.name if self._spec else '?'}.{self.name}"


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a row rests after its n-th failure: `first` seconds, then twice as long each time, at most `max_delay`."""

    first: float = 1.0
    max_delay: float = 3600.0

    def after(self, attempt: int) -> float:
        return float(min(self.max_delay, self.first * 2.0 ** min(max(attempt - 1, 0), 60)))


@dataclass(frozen=True, eq=False, repr=False)
class Claimable(Generic[S]):
    """Which rows can be claimed, in which order and for how long. Made by `claim(…)`, bound by the lifecycle's class."""

    move: Move[S] | None
    """The move that a claim makes; None: a claimed row stays at its status."""
    at: tuple[S, ...]
    """Where a row waits to be claimed."""
    lease: float
    form: Form = field(default_factory=ClaimColumns)
    order_by: tuple[str, ...] = ()
    """Columns, each with a leading `-` for the greatest first; the key if none is given."""
    ordering_key: str | None = None
    """Rows with the same value in this column are claimed one after the other, in order."""
    where: tuple[Predicate, ...] = ()
    attempts: str | None = None
    """The column that counts claims."""
    max_attempts: int | None = None
    """How often a row may be claimed."""
    not_before: str | None = None
    """The column that says before when a row is not to be claimed."""
    backoff: Backoff = Backoff()
    back: Move[S] | None = None
    """The move of a row that is given back; None: it stays where it is, and is free."""
    dead_letter: Move[S] | None = None
    """The move of a row that has used up its attempts."""
    raw: tuple[str, ...] = ()
    """Columns that hold bytes; Redis cannot distinguish them from text."""
    name: str = ""
    _spec: "Spec[S] | None" = field(default=None, repr=False)

    @property
    def lifecycle(self) -> "Spec[S]":
        if self._spec is None:
            raise CallError("this claim belongs to no lifecycle; declare it as an attribute of a Lifecycle class")
        return self._spec

    def means(self, other: "Claimable[Any]") -> bool:
        """Whether both are the same declaration, though perhaps not the same object."""
        return self is other or (self.name == other.name and self.lifecycle.means(other.lifecycle))

    def __reduce__(self) -> Any:
        return (_claimable_of, (self._spec, self.name)) if self._spec else object.__reduce_ex__(self, 2)

    @cached_property
    def topic(self) -> str:
        """By what its offers are heard: inboxes and lifecycles may share a name, and not a table."""
        return f"{self.lifecycle.table}/{self.name}"

    @cached_property
    def held(self) -> tuple[S, ...]:
        """The statuses of a claimed row; a move away from them ends the claim."""
        return (self.move.target,) if self.move else self.at

    @cached_property
    def open(self) -> tuple[S, ...]:
        """The statuses at which a row is waiting or claimed; it is found there when its holder has died."""
        return tuple(dict.fromkeys((*self.at, *self.held)))

    def __repr__(self) -> str:
        return f"<claim {self}>"

    def __str__(self) -> str:
        return f"{self._spec.name if self._spec else '?'}.{self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class Spec(Generic[S]):
    """A lifecycle as plain, frozen facts; two declarations that mean the same have the same `hash`."""

    name: str
    table: str
    key: tuple[str, ...]
    column: str
    statuses: tuple[S, ...]
    initial: tuple[S, ...]
    terminal: tuple[S, ...]
    moves: Mapping[str, Move[S]]
    claims: Mapping[str, Claimable[S]] = field(default_factory=dict)
    revision: str | None = None
    fence: str | None = None
    tenant: str | None = None
    history: History | None = None
    expires: Expiry | None = None
    members: tuple[S, ...] = field(default=(), repr=False)
    """The statuses as the caller wrote them: `statuses` are their texts where a member of the Enum is not text itself."""

    def __post_init__(self) -> None:
        _LIVE.setdefault(self.name, WeakSet()).add(self)

    def __repr__(self) -> str:
        return f"<lifecycle {self.name}>"

    def __str__(self) -> str:
        return self.name

    def means(self, other: "Spec[Any]") -> bool:
        """Whether both are the same declaration, though perhaps not the same object."""
        return self is other or (self.name == other.name and self.hash == other.hash)

    def __reduce__(self) -> Any:
        return _spec_of, (self.name, self.table, self.hash)

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that find a row; a tenant is the first part of every key."""
        return (self.tenant, *self.key) if self.tenant else self.key

    @cached_property
    def plain_key(self) -> bool:
        """Whether a key is one column and nothing else."""
        return self.tenant is None and len(self.key) == 1

    @cached_property
    def ended(self) -> frozenset[str]:
        """The statuses of rows that are not worked on any more: the terminal ones, and those of dead-lettered rows."""
        aside = {str(one.dead_letter.target) for one in self.claims.values() if one.dead_letter}
        return frozenset({str(status) for status in self.terminal} | aside)

    @cached_property
    def status_of(self) -> Mapping[str, S]:
        """The status for a text found in the store."""
        members = self.members or self.statuses
        return {str(text): member for text, member in zip(self.statuses, members, strict=True)}

    def member(self, text: Any) -> Any:
        """The caller's own member for a text of the store; a text that is not declared stays one."""
        return self.status_of.get(text, text)

    @cached_property
    def status_of_bytes(self) -> Mapping[bytes, S]:
        """The same for the bytes of a status, as Redis returns it."""
        return {text.encode(): status for text, status in self.status_of.items()}

    @cached_property
    def moves_from(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the moves that lead out of a status."""
        return {
            str(status): tuple(move.name for move in self.moves.values() if status in move.sources)
            for status in self.statuses
        }

    @cached_property
    def hash(self) -> str:
        """Identifies the meaning of this declaration; kept in generated triggers to notice drift."""
        data = self.to_dict()
        for listed in ("statuses", "initial", "terminal"):
            data[listed] = sorted(data[listed])
        for one in data["moves"].values():
            for listed in ("from", "stamp", "sets"):
                one[listed] = sorted(one.get(listed, ()))
            where = one.get("where", ())
            one["where"] = sorted(json.dumps(predicate, sort_keys=True, default=str) for predicate in where)
        canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """The same declaration as plain data; `Lifecycle.from_dict` reads it back."""
        data: dict[str, Any] = {
            "name": self.name,
            "table": self.table,
            "key": list(self.key),
            "column": self.column,
            "statuses": [str(status) for status in self.statuses],
            "initial": [str(status) for status in self.initial],
            "terminal": [str(status) for status in self.terminal],
            "moves": {name: _move_to_dict(move) for name, move in self.moves.items()},
        }
        for option in ("revision", "fence", "tenant"):
            if getattr(self, option) is not None:
                data[option] = getattr(self, option)
        if self.expires:
            data["expires"] = [self.expires.open, self.expires.ended]
        if self.claims:
            data["claims"] = {name: _claim_to_dict(one) for name, one in self.claims.items()}
        if self.history:
            data["history"] = {"table": self.history.table, "losers": self.history.losers}
        return data


_LIVE: dict[str, WeakSet[Spec[Any]]] = {}
"""The lifecycles of this process by name, so that a claim that was pickled comes back as one of them."""


def _spec_of(name: str, table: str, hash: str) -> Spec[Any]:
    """The lifecycle of this process that means the same, or else a newer declaration of the same rows."""
    live = [spec for spec in _LIVE.get(name, ()) if spec.table == table]
    for spec in live:
        if spec.hash == hash:
            return spec
    if not live:
        raise CallError(
            f"lifecycle {name} on table {table} is not declared in this process; import the module that declares it "
            "before you unpickle its claims and answers"
        )
    return live[0]


def _move_of(spec: Spec[Any], name: str) -> Move[Any]:
    return spec.moves[name]


def _claimable_of(spec: Spec[Any], name: str) -> Claimable[Any]:
    return spec.claims[name]


def _move_to_dict(one: Move[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"from": [str(source) for source in one.sources], "to": str(one.target)}
    if one.stamp:
        data["stamp"] = list(one.stamp)
    if one.sets:
        data["sets"] = list(one.sets)
    if one.where:
        data["where"] = [to_data(predicate) for predicate in one.where]
    return data


def _claim_to_dict(one: Claimable[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"lease": one.lease, "form": form_to_data(one.form)}
    data |= {"move": one.move.name} if one.move else {"at": [str(status) for status in one.at]}
    data |= {"back": one.back.name} if one.back else {}
    data |= {"dead_letter": one.dead_letter.name} if one.dead_letter else {}
    if one.where:
        data["where"] = [to_data(predicate) for predicate in one.where]
    if one.order_by:
        data["order_by"] = list(one.order_by)
    for option in ("ordering_key", "attempts", "max_attempts", "not_before"):
        if getattr(one, option) is not None:
            data[option] = getattr(one, option)
    if one.raw:
        data["raw"] = list(one.raw)
    if one.backoff != Backoff():
        data["backoff"] = [one.backoff.first, one.backoff.max_delay]
    return data
