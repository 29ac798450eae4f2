"""A lifecycle as plain, frozen facts: what everything else is derived from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from raceproof.errors import CallError
from raceproof.predicate import Predicate, to_data

S = TypeVar("S", bound=str)


@dataclass(frozen=True, slots=True)
class History:
    """Where accepted moves are written; with `losers`, refused ones too (who lost, and to what)."""

    table: str = "raceproof_history"
    losers: bool = False


@dataclass(frozen=True, eq=False)
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

    def __str__(self) -> str:
        return f"{self._spec.name if self._spec else '?'}.{self.name}"


@dataclass(frozen=True, eq=False)
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
    revision: str | None = None
    fence: str | None = None
    tenant: str | None = None
    history: History | None = None

    def __str__(self) -> str:
        return self.name

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that find a row; a tenant is the first part of every key."""
        return (self.tenant, *self.key) if self.tenant else self.key

    @cached_property
    def plain_key(self) -> bool:
        """Whether a key is one column and nothing else."""
        return self.tenant is None and len(self.key) == 1

    @cached_property
    def status_of(self) -> Mapping[str, S]:
        """The status for a text found in the store."""
        return {str(status): status for status in self.statuses}

    @cached_property
    def moves_from(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the moves that lead out of a status."""
        return {
            status: tuple(move.name for move in self.moves.values() if status in move.sources)
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
            one["where"] = sorted(json.dumps(predicate, sort_keys=True) for predicate in one.get("where", ()))
        canonical = json.dumps(data, sort_keys=True, separators=(",", ":"))
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
        if self.history:
            data["history"] = {"table": self.history.table, "losers": self.history.losers}
        return data


def _move_to_dict(one: Move[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"from": [str(source) for source in one.sources], "to": str(one.target)}
    if one.stamp:
        data["stamp"] = list(one.stamp)
    if one.sets:
        data["sets"] = list(one.sets)
    if one.where:
        data["where"] = [to_data(predicate) for predicate in one.where]
    return data
