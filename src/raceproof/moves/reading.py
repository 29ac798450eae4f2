"""Reading a row and its history, for people and for tools. Decides nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from raceproof.declare.spec import Spec
from raceproof.kernel.dialect import SqlDialect
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import KeyParts, key_parts, key_text
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import identifier
from raceproof.kernel.redis import RedisDialect, text_of
from raceproof.kernel.statement import Program, Row, Rows, Statement, reading
from raceproof.moves.answers import HistoryEntry

_ENTRY = ("move", "outcome", "before", "after", "revision", "actor", "reason", "call", "at")


class Reading(Protocol):
    """The reading programs of one dialect."""

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        """The row with all its columns, or None."""
        ...

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        """The newest entries of the history of one row, newest first."""
        ...


class SqlReading:
    """On an SQL database."""

    def __init__(self, dialect: Any) -> None:
        self._dialect: SqlDialect = dialect
        self._columns = dialect.columns
        self._texts = dialect.texts("moves", "reading.sql", own=False)

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        names: Mapping[str, str] = yield from self._columns(spec)
        columns = {"columns": ", ".join(f"t.{identifier(name)}" for name in names) or "1"}
        text = self._texts.render("move.read", {**self._dialect.row(spec), **columns})
        rows = yield text.bind(self._dialect.bound({f"key_{i}": part for i, part in enumerate(parts)}))
        if not rows:
            yield from self._dialect.not_found(spec, spec.table, spec.key_columns, parts)
            return None
        return dict(zip(names, rows[0], strict=True))

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        text = self._texts.get("move.history", spec, lambda: self._dialect.row(spec))
        return (yield text.bind({"key": key_text(parts), "limit": limit}))


class RedisReading:
    """On Redis and Valkey: a row is a hash, its history a stream."""

    def __init__(self, dialect: RedisDialect) -> None:
        self._dialect = dialect

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        (found,) = yield Statement("read", "HGETALL", (self._dialect.row_key(spec, parts),))
        return _fields(found) or None

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        stream = self._dialect.history_key(spec, parts)
        (entries,) = yield Statement("history", "XREVRANGE", (stream, "+", "-", "COUNT", limit))
        return [[_fields(fields).get(name) for name in _ENTRY] for _, fields in entries]


def read(programs: Reading, spec: Spec[Any], key: Any, tenant: Any) -> Program[dict[str, Any] | None]:
    """The row with all its columns."""
    return (yield from reading(programs.read(spec, key_parts(spec, key, tenant))))


def history(programs: Reading, spec: Spec[Any], key: Any, tenant: Any, limit: int) -> Program[list[HistoryEntry]]:
    """What happened to the row, newest first."""
    if spec.history is None:
        raise CallError(f'{spec} keeps no history; declare one with history="raceproof_history"')
    rows = yield from reading(programs.history(spec, key_parts(spec, key, tenant), limit))
    return [_entry(row) for row in rows]


def _entry(row: Row) -> HistoryEntry:
    move, outcome, before, after, revision, actor, reason, call, at = row
    counted = None if revision in (None, "") else int(revision)
    return HistoryEntry(move, outcome, before, after, counted, actor or None, reason or None, call or None, moment(at))


def _fields(found: Mapping[Any, Any] | Sequence[Any]) -> dict[str, Any]:
    """A hash as Redis returns it: a mapping, or names and values in turn."""
    pairs = found.items() if isinstance(found, Mapping) else zip(found[::2], found[1::2], strict=True)
    return {text_of(name): text_of(value) for name, value in pairs}
