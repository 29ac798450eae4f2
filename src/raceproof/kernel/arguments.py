"""Arguments that several calls share, checked before a store hears of them."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from raceproof.declare.predicate import Column, Predicate
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import is_clean

Returning = type[Any] | Iterable[str] | None


def check_set(asked: object, columns: Mapping[str, Any]) -> None:
    """A value is a parameter of the statement: an expression would reach the driver as an object it does not know."""
    for column, value in columns.items():
        if isinstance(value, Predicate | Column):
            raise CallError(
                f"{asked}: {column!r} takes a value, not the expression {value}; compute the value first, "
                "or pass the expression as a guard in where="
            )


def check_texts(move: object, texts: Iterable[Any]) -> None:
    for text in texts:
        if text is not None and (not isinstance(text, str) or not is_clean(text)):
            raise CallError(f"{move}: by=, reason= and call= are valid texts without NUL, not {text!r}")


def returned_columns(move: object, returning: type[Any] | Iterable[str]) -> tuple[tuple[str, ...], type[Any] | None]:
    if isinstance(returning, type):
        if not is_dataclass(returning):
            raise CallError(f"{move}: returning= takes a dataclass or names of columns, not {returning!r}")
        return tuple(one.name for one in fields(returning) if one.init), returning
    names = (returning,) if isinstance(returning, str) else tuple(returning)
    if not names:
        raise CallError(f"{move}: returning= names no column")
    return names, None
