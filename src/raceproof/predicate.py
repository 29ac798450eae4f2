"""Extra guards on the row that moves: `column("attempts") < 5`, or `sql("amount <= {limit}", limit=9)`.

Promise: a predicate is decided by the store, in the same write as the move, on the row as it is at that moment.
`column` works on every store, Redis included; `sql` is for PostgreSQL and SQLite and may use anything they know.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Literal, final

from raceproof.errors import DeclarationError
from raceproof.quoting import identifier, parameter, qualified

Operator = Literal["=", "<>", "<", "<=", ">", ">=", "is null", "is not null"]
Scalar = str | int | float


@final
@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One column against one value. A comparison with NULL is never true, as in SQL."""

    column: str
    operator: Operator
    value: Scalar | None = None

    def __post_init__(self) -> None:
        if self.operator.startswith("is "):
            return
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            raise DeclarationError(
                f"column({self.column!r}) can be compared with text and numbers, not with {self.value!r}; "
                "for anything else write sql(…), for NULL .is_null()"
            )

    def __str__(self) -> str:
        value = "" if self.value is None else f" {self.value!r}"
        return f"{self.column} {self.operator}{value}"

    def text(self, prefix: str) -> str:
        """The predicate as SQL on the row `t`; its parameter is called after `prefix`."""
        value = "" if self.operator.startswith("is ") else " " + parameter(f"{prefix}_value")
        return f"t.{identifier(self.column)} {self.operator}{value}"

    def values(self, prefix: str) -> Mapping[str, Any]:
        return {} if self.operator.startswith("is ") else {f"{prefix}_value": self.value}

    def __bool__(self) -> bool:
        raise TypeError(
            f"`{self}` is decided in the store, it is neither true nor false here; pass it as where="
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """A piece of SQL over the columns of the row, with named parameters."""

    fragment: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.fragment

    def text(self, prefix: str) -> str:
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

    def text(self, prefix: str) -> str:
        # P10: until this write is committed nobody can take the lease over
        lock = " FOR SHARE" if self.dialect == "postgres" else ""
        name, epoch = parameter(f"{prefix}_name"), parameter(f"{prefix}_epoch")
        return _EPOCH.format(table=qualified(self.table), name=name, epoch=epoch, lock=lock)

    def values(self, prefix: str) -> Mapping[str, Any]:
        return {f"{prefix}_name": self.name, f"{prefix}_epoch": self.epoch}


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
        return Comparison(self._name, "=", value)  # type: ignore[arg-type]

    def __ne__(self, value: object) -> Comparison:  # type: ignore[override]
        return Comparison(self._name, "<>", value)  # type: ignore[arg-type]

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


def predicates(where: Where) -> tuple[Predicate, ...]:
    """One predicate or several, always as a tuple."""
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
