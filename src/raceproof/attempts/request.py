"""One start of an attempt, checked before the store hears of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from raceproof.attempts.declared import Attempts
from raceproof.kernel.arguments import check_set, check_texts
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_parts
from raceproof.kernel.quoting import identifier

WhenOpen = Literal["supersede", "keep", "reject"]


@dataclass(slots=True)
class StartRequest:
    """What is asked: a new attempt of an owner, and what to do if it has one that is open."""

    attempts: Attempts
    owner: Any
    key: Any
    parts: tuple[Any, ...]
    when_open: WhenOpen
    columns: Mapping[str, Any]
    by: str | None
    now: datetime | None
    tenant: Any


def start_request(
    attempts: Attempts,
    owner: Any,
    key: Any,
    *,
    when_open: WhenOpen = "supersede",
    columns: Mapping[str, Any] | None = None,
    by: str | None = None,
    now: datetime | None = None,
    tenant: Any = None,
) -> StartRequest:
    """Check a call; every error here comes before anything was sent."""
    if not isinstance(attempts, Attempts):
        raise CallError(f"{attempts!r} is not a declaration of attempts; make one with Attempts(…)")
    if when_open not in ("supersede", "keep", "reject"):
        raise CallError(f"{attempts}: when_open= is supersede, keep or reject, not {when_open!r}")
    if now is not None and now.tzinfo is None:
        raise CallError(f"{attempts}: now= must have a time zone, as in datetime.now(timezone.utc)")
    spec = attempts.lifecycle
    if columns:
        _check_columns(attempts, columns)
    if owner is None or owner == "":
        raise CallError(f"{attempts}: owner must be a value of {attempts.owner!r}, got {owner!r}")
    check_texts(attempts, (by, owner if isinstance(owner, str) else None))
    parts = key_parts(spec, key, tenant)
    return StartRequest(attempts, owner, key, parts, when_open, columns or {}, by, now, tenant)


def _check_columns(attempts: Attempts, columns: Mapping[str, Any]) -> None:
    spec = attempts.lifecycle
    check_set(attempts, columns)
    own = {*spec.key_columns, spec.column, spec.revision, attempts.owner, attempts.started}
    for column in columns:
        identifier(column)
        if column in own and not (column == attempts.owner == spec.tenant):
            raise CallError(f"{attempts}: column {column!r} has a role of its own and cannot be given")
