"""Reading a row and what happened to it, for people and for `raceproof show` and `explain`. Decides nothing."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from raceproof.errors import CallError
from raceproof.moves.request import KeyParts, key_parts
from raceproof.spec import Claimable, Spec
from raceproof.statement import Program, Row, Rows, reading


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One decision that was kept: a move, or, where losers are recorded, a move that was refused."""

    move: str
    outcome: str
    before: str | None
    """None for a row that an override put in at this status."""
    after: str
    revision: int | None
    actor: str | None
    reason: str | None
    call: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A row that somebody holds, or held until its lease was over (`stale`)."""

    key: Any
    status: str
    holder: str | None
    fence: Any
    attempts: int | None
    until: datetime
    stale: bool


@dataclass(frozen=True, slots=True)
class UnfinishedDelivery:
    """A delivery that is under way, or whose end nobody knows."""

    key: Any
    state: str
    holder: str | None
    since: datetime | None
    attempts: int | None
    error: str | None


class Looks(Protocol):
    """The reading programs of one dialect."""

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]: ...
    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]: ...


def read(looks: Looks, spec: Spec[Any], key: Any, tenant: Any) -> Program[dict[str, Any] | None]:
    """The row with all its columns."""
    return (yield from reading(looks.read(spec, key_parts(spec, key, tenant))))


def history(looks: Looks, spec: Spec[Any], key: Any, tenant: Any, limit: int) -> Program[list[HistoryEntry]]:
    """What happened to the row, newest first."""
    if spec.history is None:
        raise CallError(f'{spec} keeps no history; declare one with history="raceproof_history"')
    rows = yield from reading(looks.history(spec, key_parts(spec, key, tenant), limit))
    return [_entry(row) for row in rows]


def held_claims(claim: Claimable[Any], rows: Rows) -> list[HeldClaim]:
    """What a dialect tells of the claims that are held."""
    spec = claim.lifecycle
    found = []
    for until, stale, status, holder, fence, attempts, *parts in rows:
        own = tuple(parts)[1:] if spec.tenant else tuple(parts)
        key = own if len(own) > 1 else own[0]
        tried = None if attempts is None else int(attempts)
        found.append(HeldClaim(key, status, holder, fence, tried, moment(until), bool(stale)))
    return found


def _entry(row: Row) -> HistoryEntry:
    move, outcome, before, after, revision, actor, reason, call, at = row
    return HistoryEntry(
        move,
        outcome,
        before,
        after,
        None if revision in (None, "") else int(revision),
        actor or None,
        reason or None,
        call or None,
        moment(at),
    )


def moment(value: Any) -> datetime:
    """A time as any of the stores keeps it, as a datetime in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(float(value), UTC)
    except ValueError:
        return datetime.fromisoformat(str(value)).replace(tzinfo=UTC)
