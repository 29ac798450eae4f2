"""Extra guards on the row that moves: `column("attempts") < 5`, or `sql("amount <= {limit}", limit=9)`.

Promise: a predicate is decided by the store, in the same write as the move, on the row as it is at that moment.
`column` works on every store, Redis included; `sql` is for PostgreSQL and SQLite and may use anything they know.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from string import Formatter
from typing import Any, Literal, final
from uuid import UUID

from raceproof.kernel.errors import DeclarationError
from raceproof.kernel.quoting import identifier, parameter, qualified
from raceproof.kernel.secrecy import HIDDEN, is_secret

Operator = Literal["=", "<>", "<", "<=", ">", ">=", "is null", "is not null"]
Kind = Literal["value", "moment", "uuid"]
Spelled = Callable[[Kind, str], str]
Scalar = str | int | float | Decimal | UUID | date | Enum
"""What a column can be compared with; a datetime is a date too, and a member of an Enum means its value."""


def as_it_is(kind: Kind, value: str) -> str:
    """The spelling of a store whose columns have types: the value itself."""
    return value


@final
@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One column against one value. A comparison with NULL is never true, as in SQL."""

    column: str
    operator: Operator
    value: Any = None
    kind: Kind = "value"
    """A moment or a UUID is compared as such, however the column spells it."""

    def __post_init__(self) -> None:
        if self.operator.startswith("is "):
            return
        # a member of an Enum stays one: only the column's type knows whether its name or its value is stored
        plain = self.value.value if isinstance(self.value, Enum) else self.value
        if isinstance(plain, bool) or not isinstance(plain, Scalar):
            raise DeclarationError(
                f"column({self.column!r}) can be compared with text, numbers, dates, times and UUIDs, "
                f"got {self.value!r}; for anything else write sql(…), for NULL .is_null()"
            )
        if isinstance(self.value, datetime | UUID):
            object.__setattr__(self, "kind", "uuid" if isinstance(self.value, UUID) else "moment")

    def stored(self, value: Any) -> "Comparison":
        """The same comparison with the value as the column stores it."""
        found = Comparison(self.column, "is null")
        object.__setattr__(found, "operator", self.operator)
        object.__setattr__(found, "value", value)
        if self.kind == "moment" and isinstance(value, str | datetime):
            object.__setattr__(found, "kind", "moment")  # which the library may have stamped in another spelling
        return found

    def __str__(self) -> str:
        """In words; without the value where the name of the column speaks of a secret."""
        value = "" if self.value is None else f" {HIDDEN if is_secret(self.column) else _spelled(self.value)}"
        return f"{self.column} {self.operator}{value}"

    def text(self, prefix: str, spelled: Spelled = as_it_is) -> str:
        """The predicate as SQL on the row `t`; its parameter is called after `prefix`.

        `spelled` makes one spelling of a moment or a UUID, in a store where a column may have several.
        """
        column = f"t.{identifier(self.column)}"
        if self.operator.startswith("is "):
            return f"{column} {self.operator}"
        value = parameter(f"{prefix}_{self.kind}")
        return f"{spelled(self.kind, column)} {self.operator} {spelled(self.kind, value)}"

    def values(self, prefix: str) -> Mapping[str, Any]:
        if self.operator.startswith("is "):
            return {}
        value = self.value.value if isinstance(self.value, Enum) else self.value
        return {f"{prefix}_{self.kind}": value}

    def __bool__(self) -> bool:
        raise TypeError(f"`{self}` is decided in the store, it is neither true nor false here; pass it as where=")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """A piece of SQL over the columns of the row, with named parameters."""

    fragment: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.fragment

    def stored(self, parameters: Mapping[str, Any]) -> "Fragment":
        """The same fragment with its parameters as the store keeps such values."""
        return Fragment(self.fragment, parameters)

    def text(self, prefix: str, spelled: Spelled = as_it_is) -> str:
        """The fragment with its parameters renamed, so that two fragments cannot share one by accident."""
        parts = []
        for literal, name, _, _ in Formatter().parse(self.fragment):
            parts.append(literal)
            if name is not None:
                parts.append(parameter(f"{prefix}_{name}"))
        return "(" + "".join(parts) + ")"

    def values(self, prefix: str) -> Mapping[str, Any]:
        return {f"{prefix}_{name}": value for name, value in self.parameters.items()}


_EPOCH = "EXISTS (SELECT 1 FROM {table} AS l WHERE l.name = {name} AND l.epoch = {epoch}{lock})"


@final
@dataclass(frozen=True, slots=True, eq=False)
class EpochGuard:
    """The lease of this name is still in this epoch, whoever looks: so an old leader can write nothing more."""

    dialect: str
    table: str
    name: str
    epoch: int

    def __str__(self) -> str:
        return f"epoch {self.epoch} of {self.name}"

    def text(self, prefix: str, spelled: Spelled = as_it_is) -> str:
        # P10: until this write is committed, no process can take the lease over
        lock = " FOR SHARE" if self.dialect == "postgres" else ""
        name, epoch = parameter(f"{prefix}_name"), parameter(f"{prefix}_epoch")
        return _EPOCH.format(table=qualified(self.table), name=name, epoch=epoch, lock=lock)

    def values(self, prefix: str) -> Mapping[str, Any]:
        return {f"{prefix}_name": self.name, f"{prefix}_epoch": self.epoch}


def _spelled(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, Enum):
        value = value.value
    return str(value) if isinstance(value, UUID | Decimal | date) else repr(value)


Predicate = Comparison | Fragment | EpochGuard
Where = Predicate | Iterable[Predicate]


@final
class Column:
    """A column of the row, to be compared; see `column`."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"column({self._name!r})"

    def __eq__(self, value: object) -> Comparison:  # type: ignore[override]
        return Comparison(self._name, "=", value)

    def __ne__(self, value: object) -> Comparison:  # type: ignore[override]
        return Comparison(self._name, "<>", value)

    def __lt__(self, value: Scalar) -> Comparison:
        return Comparison(self._name, "<", value)

    def __le__(self, value: Scalar) -> Comparison:
        return Comparison(self._name, "<=", value)

    def __gt__(self, value: Scalar) -> Comparison:
        return Comparison(self._name, ">", value)

    def __ge__(self, value: Scalar) -> Comparison:
        return Comparison(self._name, ">=", value)

    def is_null(self) -> Comparison:
        return Comparison(self._name, "is null")

    def is_not_null(self) -> Comparison:
        return Comparison(self._name, "is not null")


def column(name: str) -> Column:
    """Name a column of the row, to compare it: `column("attempts") < 5`."""
    identifier(name)
    return Column(name)


def sql(fragment: str, **parameters: Any) -> Fragment:
    """Write a guard in SQL; `{name}` is a parameter, a brace of your own is written twice."""
    try:
        wanted = {name for _, name, _, _ in Formatter().parse(fragment) if name is not None}
    except ValueError as error:
        raise DeclarationError(f"sql({fragment!r}): {error}; write a brace of your own twice") from None
    if wanted != set(parameters):
        raise DeclarationError(
            f"sql({fragment!r}) names the parameters {sorted(wanted)}, but was given {sorted(parameters)}"
        )
    # sorted, because calls with the same fragment share a statement, whatever order their parameters are given in
    return Fragment(fragment, dict(sorted(parameters.items())))


NO_GUARDS: Where = ()
"""What a call without guards passes; a comparison has no truth value, so it is compared by identity."""


def predicates(where: Where) -> tuple[Predicate, ...]:
    """One predicate or several, always as a tuple."""
    if isinstance(where, str):
        raise DeclarationError(f"where={where!r} is text; write sql({where!r}), or column(…) with a comparison")
    try:
        found = (where,) if isinstance(where, Predicate) else tuple(where)
    except TypeError:
        if isinstance(where, Iterable):
            raise
        found = (where,)
    for predicate in found:
        if not isinstance(predicate, Predicate):
            raise DeclarationError(f"where= takes column(…) comparisons and sql(…), not {predicate!r}")
    return found


def to_data(predicate: Predicate) -> list[Any]:
    """A predicate as plain data, for the dict and TOML form of a lifecycle."""
    match predicate:
        case Comparison(column=name, operator=operator, value=None):
            return [name, operator]
        case Comparison(column=name, operator=operator, value=value):
            return [name, operator, value]
        case Fragment(fragment=fragment, parameters=parameters):
            return [fragment, "sql", dict(parameters)]
        case EpochGuard():
            raise DeclarationError(f"{predicate} belongs to a call, not to a declaration")


def from_data(data: Any) -> Predicate:
    """The way back from `to_data`."""
    match list(data) if isinstance(data, list | tuple) else data:
        case [str(name), ("is null" | "is not null") as operator]:
            return Comparison(name, operator)
        case [str(name), ("=" | "<>" | "<" | "<=" | ">" | ">=") as operator, value]:
            return Comparison(name, operator, value)
        case [str(fragment), "sql", {**parameters}]:
            return sql(fragment, **{str(name): value for name, value in parameters.items()})
        case [str(fragment), "sql"]:
            return sql(fragment)
        case other:
            raise DeclarationError(
                f"{other!r} is not a predicate: write [column, operator, value] or [fragment, 'sql', {{…}}]"
            )
