"""A lifecycle, declared once: which statuses a kind of row has and which named moves exist.

Rules for whoever declares one (all are checked when the class is made, so a bad one does not import):
  - every status can be reached from an initial one, and every status in `terminal` has no way out;
  - a status without a way out must be listed in `terminal`, if `terminal` is given at all;
  - a move has at least one source and never leads back to one of its sources;
  - two moves do not have the same sources, target and guards, and no column has two roles.

Everything else (SQL, Lua, triggers, history, diagrams, metrics, explain) is derived from the frozen `Spec`.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, get_args

from raceproof.errors import CallError, DeclarationError
from raceproof.predicate import Comparison, Predicate, Where, from_data, predicates, to_data
from raceproof.quoting import identifier, literal, qualified

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


def move(
    *sources: S,
    to: S,
    stamp: str | Iterable[str] = (),
    sets: str | Iterable[str] = (),
    where: Where = (),
) -> Move[S]:
    """Declare a move: from any of `sources` to `to`.

    `stamp` columns get the store's clock, `sets` names the columns that a caller may set along with the move, and
    `where` are guards that must hold for every call.
    """
    return Move(sources, to, _names(stamp), _names(sets), predicates(where))


class Lifecycle(Generic[S]):
    """Subclass it with your statuses and moves; the class is never instantiated.

    class Command(Lifecycle[Status], table="commands", key="cmd_id", revision="rev"):
        send = move(Status.QUEUED, Status.SEND_FAILED, to=Status.SENT, stamp="sent_at")
    """

    spec: ClassVar[Spec[Any]]

    def __init_subclass__(
        cls,
        *,
        table: str,
        key: str | Iterable[str] = "id",
        column: str = "status",
        initial: str | Iterable[str] | None = None,
        terminal: str | Iterable[str] | None = None,
        revision: str | None = None,
        fence: str | None = None,
        tenant: str | None = None,
        history: History | str | None = None,
    ) -> None:
        super().__init_subclass__()
        statuses = _statuses(cls)
        cls.spec = build_spec(
            name=cls.__name__,
            table=table,
            key=_names(key),
            column=column,
            statuses=statuses,
            initial=statuses[:1] if initial is None else _names(initial),
            terminal=None if terminal is None else _names(terminal),
            moves={name: value for name, value in vars(cls).items() if isinstance(value, Move)},
            revision=revision,
            fence=fence,
            tenant=tenant,
            history=History(history) if isinstance(history, str) else history,
        )
        for name, bound in cls.spec.moves.items():
            setattr(cls, name, bound)

    def __init__(self) -> None:
        raise TypeError(
            f"{type(self).__name__} is a declaration: use its moves, as in {type(self).__name__}.spec.moves"
        )

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Spec[str]:
        """The declaration as plain data, for lifecycles that come from a file."""
        return _spec_from_dict(data)

    @staticmethod
    def from_toml(path: str | Path) -> Spec[str]:
        """The declaration from a TOML file with the keys of `Spec.to_dict`."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DeclarationError(f"{path}: {error}") from None
        return _spec_from_dict(data)


def spec_of(declared: "type[Lifecycle[S]] | Spec[S]") -> Spec[S]:
    """The spec of a lifecycle, whichever way it was declared."""
    if isinstance(declared, Spec):
        return declared
    spec = getattr(declared, "spec", None)
    if isinstance(spec, Spec):
        return spec
    raise CallError(
        f"{declared!r} is not a lifecycle; pass a Lifecycle class or what Lifecycle.from_toml returned"
    )


def build_spec(
    *,
    name: str,
    table: str,
    key: tuple[str, ...],
    column: str,
    statuses: tuple[S, ...],
    initial: tuple[str, ...],
    terminal: tuple[str, ...] | None,
    moves: Mapping[str, Move[S]],
    revision: str | None = None,
    fence: str | None = None,
    tenant: str | None = None,
    history: History | None = None,
) -> Spec[S]:
    """Check a declaration and freeze it."""
    problems = _Problems(name)
    known = {str(status): status for status in statuses}
    for status in (*initial, *(terminal or ())):
        problems.require(status in known, f"{status!r} is not one of its statuses {sorted(known)}")
    for move_name, one in moves.items():
        _check_move(problems, move_name, one, known)
    _check_columns(problems, moves, [*key, column, revision, fence, tenant])
    _check_duplicates(problems, moves)
    dead_ends = tuple(s for s in statuses if not any(s in one.sources for one in moves.values()))
    for status in terminal or ():
        leaving = [one for one, m in moves.items() if status in m.sources]
        problems.require(not leaving, f"terminal status {status!r} has a way out: {', '.join(leaving)}")
    if terminal is not None:
        for status in dead_ends:
            problems.require(
                status in terminal,
                f"{status!r} has no way out; list it in terminal=, or declare a move from it",
            )
    reached = _reachable(initial, moves)
    for status in statuses:
        problems.require(status in reached, f"{status!r} cannot be reached from {', '.join(initial)}")
    qualified(table)
    if history:
        qualified(history.table)
    problems.raise_if_any()

    bound: dict[str, Move[S]] = {}
    spec = Spec(
        name=name,
        table=table,
        key=key,
        column=column,
        statuses=statuses,
        initial=tuple(known[status] for status in initial),
        terminal=dead_ends,
        moves=bound,
        revision=revision,
        fence=fence,
        tenant=tenant,
        history=history,
    )
    for move_name, one in moves.items():
        bound[move_name] = Move(
            tuple(known[source] for source in one.sources),
            known[one.target],
            one.stamp,
            one.sets,
            one.where,
            move_name,
            spec,
        )
    return spec


class _Problems:
    """Collects everything that is wrong, so that a declaration is mended once and not five times."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: list[str] = []

    def require(self, holds: bool, problem: str) -> None:
        if not holds and problem not in self._found:
            self._found.append(problem)

    def raise_if_any(self) -> None:
        if self._found:
            raise DeclarationError(f"lifecycle {self._name}: " + "; ".join(self._found))


def _check_move(problems: _Problems, name: str, one: Move[Any], known: Mapping[str, str]) -> None:
    problems.require(bool(one.sources), f"move {name} has no source")
    for status in (*one.sources, one.target):
        problems.require(status in known, f"move {name} names {status!r}, which is not one of its statuses")
    problems.require(one.target not in one.sources, f"move {name} leads from {one.target!r} to itself")
    problems.require(len(set(one.sources)) == len(one.sources), f"move {name} names a source twice")


def _check_columns(problems: _Problems, moves: Mapping[str, Move[Any]], own: list[str | None]) -> None:
    columns = [column for column in own if column is not None]
    problems.require(len(columns) > 1 and bool(columns[0]), "it needs a key")
    for column in columns:
        identifier(column)
        problems.require(columns.count(column) == 1, f"column {column!r} has two roles")
    for name, one in moves.items():
        written = [*one.stamp, *one.sets]
        for column in written:
            identifier(column)
            problems.require(
                column not in columns, f"move {name} may not write {column!r}, which has a role of its own"
            )
            problems.require(written.count(column) == 1, f"move {name} writes {column!r} twice")
        for predicate in one.where:
            if isinstance(predicate, Comparison):
                identifier(predicate.column)


def _check_duplicates(problems: _Problems, moves: Mapping[str, Move[Any]]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for name, one in moves.items():
        path = (frozenset(one.sources), one.target, frozenset(map(str, one.where)))
        problems.require(path not in seen, f"moves {seen.get(path)} and {name} are the same")
        seen.setdefault(path, name)
    problems.require(bool(moves), "it has no moves")


def _reachable(initial: Iterable[str], moves: Mapping[str, Move[Any]]) -> set[str]:
    reached: set[str] = set(initial)
    while True:
        more = {str(m.target) for m in moves.values() if reached.intersection(m.sources)} - reached
        if not more:
            return reached
        reached |= more


def _statuses(cls: type[Lifecycle[Any]]) -> tuple[Any, ...]:
    for base in getattr(cls, "__orig_bases__", ()):
        for argument in get_args(base):
            if isinstance(argument, type) and issubclass(argument, StrEnum):
                statuses = tuple(argument)
                for status in statuses:
                    literal(status)
                if statuses:
                    return statuses
    raise DeclarationError(
        f"lifecycle {cls.__name__}: name its statuses as a StrEnum, as in class {cls.__name__}(Lifecycle[Status], …)"
    )


def _names(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _move_to_dict(one: Move[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"from": [str(source) for source in one.sources], "to": str(one.target)}
    if one.stamp:
        data["stamp"] = list(one.stamp)
    if one.sets:
        data["sets"] = list(one.sets)
    if one.where:
        data["where"] = [to_data(predicate) for predicate in one.where]
    return data


_KEYS = frozenset(
    (
        "name",
        "table",
        "key",
        "column",
        "statuses",
        "initial",
        "terminal",
        "moves",
        "revision",
        "fence",
        "tenant",
        "history",
    )
)
_MOVE_KEYS = frozenset(("from", "to", "stamp", "sets", "where"))


def _spec_from_dict(data: Mapping[str, Any]) -> Spec[str]:
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise DeclarationError('a lifecycle needs a name, as in name = "Command"')
    _check_keys(f"lifecycle {name}", data, _KEYS, required=("table", "statuses", "moves"))
    statuses = tuple(data["statuses"])
    for status in statuses:
        literal(status)
    if not statuses or len(set(statuses)) != len(statuses):
        raise DeclarationError(f"lifecycle {name}: statuses must be given, each once")
    moves = {}
    for move_name, one in data["moves"].items():
        _check_keys(f"lifecycle {name}: move {move_name}", one, _MOVE_KEYS, required=("from", "to"))
        where = [from_data(predicate) for predicate in one.get("where", ())]
        moves[move_name] = move(
            *_names(one["from"]),
            to=one["to"],
            stamp=one.get("stamp", ()),
            sets=one.get("sets", ()),
            where=where,
        )
    history = data.get("history")
    return build_spec(
        name=name,
        table=data["table"],
        key=_names(data.get("key", "id")),
        column=data.get("column", "status"),
        statuses=statuses,
        initial=_names(data["initial"]) if "initial" in data else statuses[:1],
        terminal=_names(data["terminal"]) if "terminal" in data else None,
        moves=moves,
        revision=data.get("revision"),
        fence=data.get("fence"),
        tenant=data.get("tenant"),
        history=History(history) if isinstance(history, str) else History(**history) if history else None,
    )


def _check_keys(what: str, data: Any, known: frozenset[str], required: tuple[str, ...]) -> None:
    if not isinstance(data, Mapping):
        raise DeclarationError(f"{what}: must be a table of settings, not {data!r}")
    for key in required:
        if key not in data:
            raise DeclarationError(f"{what}: {key} is missing")
    if unknown := sorted(set(data) - known):
        raise DeclarationError(
            f"{what}: unknown setting {', '.join(unknown)}; known are {', '.join(sorted(known))}"
        )
