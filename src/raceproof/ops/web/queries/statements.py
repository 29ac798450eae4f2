"""The statements of the pages, filled for a store; and keys, which are texts in a URL and have types in PostgreSQL."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from raceproof.declare.spec import Spec
from raceproof.kernel.quoting import identifier, literal, parameter, qualified, split_qualified
from raceproof.kernel.statement import Program, Rows, Statement
from raceproof.kernel.tenants import row_of_tenant
from raceproof.ops import inspect
from raceproof.store import AsyncStore

_LONGEST_NUMBER = 200
_LARGEST_REAL = 3.4e38


def _whole(bits: int) -> Callable[[str], int]:
    """Reads a whole number that a column of so many bits can have."""

    def make(text: str) -> int:
        number = int(text)
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError("too large")
        return number

    return make


def _numeric(text: str) -> Decimal:
    """A number that a key may be; one of a thousand digits would take the driver long to write."""
    number = Decimal(text)
    if number.is_finite() and (len(text) > _LONGEST_NUMBER or abs(number.adjusted()) > _LONGEST_NUMBER):
        raise ValueError("too large")
    return number


def _real(text: str) -> float:
    number = float(text)
    if math.isfinite(number) and abs(number) > _LARGEST_REAL:
        raise ValueError("too large")
    return number


def _time(aware: bool) -> Callable[[str], datetime]:
    """Reads a time; asyncpg refuses one with a time zone for a column that has none."""

    def make(text: str) -> datetime:
        found = datetime.fromisoformat(text)
        if not aware and found.tzinfo is not None:
            raise ValueError("a time with a zone")
        return found

    return make


_MAKE: dict[str, Any] = {
    "smallint": _whole(16),
    "integer": _whole(32),
    "bigint": _whole(64),
    "numeric": _numeric,
    "real": _real,
    "double precision": float,
    "uuid": UUID,
    "boolean": lambda text: {"True": True, "False": False}[text],
    "date": date.fromisoformat,
    "timestamp without time zone": _time(aware=False),
    "timestamp with time zone": _time(aware=True),
}


def statement(
    store: AsyncStore, name: str, slots: Mapping[str, str], values: Mapping[str, Any] | None = None
) -> Statement:
    """A statement of `shared.sql`, or of the dialect's own file, with its values."""
    return inspect.statement(store, inspect.texts_of(store, "ops.web", "shared.sql"), name, slots, values)


def names(table: str) -> dict[str, Any]:
    """A table as the statements about the catalogue want it."""
    *schema, bare = split_qualified(table)
    return {"table": qualified(table), "bare": bare, "schema": schema[-1] if schema else "main"}


def status_text(store: AsyncStore, column: str) -> str:
    return f"t.{identifier(column)}" + ("::text" if store.dialect == "postgres" else "")


def tenant_matches(store: AsyncStore, column: str | None) -> str:
    """A store of one tenant sees its rows alone."""
    return row_of_tenant(column, store.tenant)


def newest(columns: Sequence[str]) -> str:
    return ", ".join(f"t.{identifier(column)} DESC" for column in columns)


def before(columns: Sequence[str]) -> str:
    """Keyset: what comes after the last key of the page before."""
    mine = ", ".join(f"t.{identifier(column)}" for column in columns)
    given = ", ".join(parameter(f"before_{place}") for place in range(len(columns)))
    return f"({mine}) < ({given})"


def literals(texts: Sequence[Any]) -> str:
    return ", ".join(literal(str(text)) for text in texts)


def indexes(store: AsyncStore, table: str) -> Program[list[tuple[tuple[str, ...], bool]]]:
    """The columns of each index of a table, and whether it is partial."""
    rows: Rows = yield statement(store, "web.indexes", {}, names(table))
    if store.dialect == "postgres":
        return [(tuple(columns), bool(partial)) for columns, partial in rows]
    found: dict[str, tuple[list[str], bool]] = {}
    for index, column, partial in rows:
        found.setdefault(index, ([], bool(partial)))[0].append(column)
    return [(tuple(columns), partial) for columns, partial in found.values()]


def order_columns(
    store: AsyncStore, table: str, tenant: str | None, key_columns: tuple[str, ...]
) -> Program[tuple[str, ...]]:
    """By what rows are walked: the whole key, or, where no index begins with the tenant, the key without it."""
    if tenant is None:
        return key_columns
    found = yield from indexes(store, table)
    leads = any(columns[: len(key_columns)] == key_columns and not partial for columns, partial in found)
    return key_columns if leads else key_columns[1:]


def typed(store: AsyncStore, table: str, columns: Sequence[str], parts: Sequence[str]) -> Program[tuple[Any, ...]]:
    """The parts of a key in the types of their columns; ValueError if they cannot be ones."""
    if len(parts) != len(columns):
        raise ValueError("a key of another kind")
    if any("\0" in part for part in parts):
        raise ValueError("not a text")
    if store.dialect != "postgres":
        return tuple(parts)
    rows = yield statement(store, "web.types", {}, names(table))
    types = {str(name): str(kind) for name, kind in rows}
    try:
        return tuple(_MAKE.get(types.get(column, ""), str)(part) for column, part in zip(columns, parts, strict=True))
    except (ArithmeticError, InvalidOperation, KeyError, ValueError) as error:
        raise ValueError("not a key of this table") from error


def whole_number(text: Any) -> int | None:
    """A number that Redis keeps as a text; None for anything else, as a superscript two."""
    said = str(text)
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else None


def user_key(spec: Spec[Any], parts: Sequence[Any]) -> Any:
    """A key as the library's calls want it: without the tenant, a tuple only if it has several columns."""
    own = tuple(parts)[1:] if spec.tenant else tuple(parts)
    return own if len(own) > 1 else own[0]
