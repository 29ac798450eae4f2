"""Attempts on PostgreSQL and SQLite: one transaction, in which starters of one owner go one after the other.

What ends the old attempt is an ordinary guarded move, with its history.
"""

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any

from raceproof.attempts.declared import Attempts
from raceproof.attempts.outcome import Kept, Rejected, StartAnswer, Started
from raceproof.attempts.request import StartRequest
from raceproof.errors import CallError
from raceproof.moves import sql as moves_sql
from raceproof.moves.request import key_text, request
from raceproof.moves.sqlite import bindable
from raceproof.moves.sqlite_keys import found_otherwise
from raceproof.moves.words import PostgresWords, SqliteWords
from raceproof.outcome import Conflict, Unknown
from raceproof.quoting import identifier, literal, parameter
from raceproof.shown import shown_key
from raceproof.sqlstate import sqlstate
from raceproof.statement import (
    BEGIN,
    ROLLBACK,
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Rows,
    Statement,
    inside,
    templates,
    transaction,
)

_SEE_WHAT_IS_COMMITTED = {"read committed", "read uncommitted"}  # PostgreSQL does the same for both
_AS_SPELLED = "COALESCE((SELECT s.{column} FROM {table} AS s LIMIT 0), {given})::text"
_NO_SUCH_INDEX = "42P10"  # invalid_column_reference: "… no unique or exclusion constraint matching …"


class PostgresAttempts:
    """The programs of attempts on PostgreSQL; texts are rendered once and kept."""

    file = "postgres.sql"
    words: Any = PostgresWords()
    cast = "{}::text"

    def __init__(self, moves: Any) -> None:
        self._moves = moves
        self._prepared: dict[Hashable, Prepared] = {}

    def start(self, asked: StartRequest) -> Program[StartAnswer]:
        """Make a row the owner's active attempt; end, keep or respect the one that is open."""
        alone = not self._in_transaction()
        try:
            return (yield from transaction(self._begin(asked), self._start(asked, alone)))
        except AcknowledgementLost as error:
            return Unknown(asked.key, asked.attempts, None, error.__cause__ or error)
        except Conflicted as error:
            return Conflict(asked.key, asked.attempts, error.__cause__ or error)

    def _start(self, asked: StartRequest, alone: bool) -> Program[StartAnswer]:
        attempts = asked.attempts
        spec = attempts.lifecycle
        values = self._values(asked)
        yield from self._wait_for_others(asked, values, alone)
        found = yield self._text("attempt.look", asked).bind(values)
        wanted = key_text(asked.parts)
        others: list[Any] = []
        for status, owner, fresh, is_open, *parts in found:
            if key_text(tuple(parts)) != wanted:
                others.append((status, fresh, parts))
            elif is_open and fresh and owner == str(asked.owner):
                return Started(asked.key, attempts, asked.owner, None, replayed=True)
            else:
                # P9: an attempt that has ended is never begun anew, nor taken from another owner
                return Rejected(asked.key, attempts, asked.owner, status)
        for status, fresh, parts in others:
            active = _user_key(spec, parts)
            if fresh and asked.when_open == "keep":
                return Kept(active, attempts, asked.owner, status)
            if fresh and asked.when_open == "reject":
                return Rejected(asked.key, attempts, asked.owner, status, active)
        superseded = None
        for _, _, parts in others:
            superseded = _user_key(spec, parts)
            change = (
                {attempts.link: asked.key if not isinstance(asked.key, tuple) else wanted}
                if attempts.link
                else None
            )
            ended = request(
                attempts.supersede, superseded, tenant=asked.tenant, set=change, by=asked.by, now=asked.now
            )
            answer = yield from inside(self._moves.one(ended))
            if isinstance(answer, Conflict):
                raise Conflicted from answer.cause
            if not answer.won:
                # P9: nothing of this start is kept, rather than two that are open
                raise CallError(
                    f"{attempts} of {shown_key(asked.owner)}: {shown_key(superseded)} could not be ended: {answer}"
                )
        made = yield self._text("attempt.insert", asked).bind(values)
        if not made:
            raise CallError(
                f"{attempts} of {shown_key(asked.owner)}: {shown_key(asked.key)} was inserted into {spec.table} by "
                "another process in the meantime"
            )
        if spec.history:
            yield self._text("attempt.note", asked).bind(values | {"key": made[0][0]})
        return Started(asked.key, attempts, asked.owner, superseded)

    def _begin(self, asked: StartRequest) -> Statement:
        return BEGIN

    def _in_transaction(self) -> bool:
        return bool(self._moves.in_transaction())

    def _wait_for_others(self, asked: StartRequest, values: dict[str, Any], alone: bool) -> Program[None]:
        """From here on nobody else starts an attempt of this owner, and what others have started is seen, or refuses."""
        # some drivers know only by now that the transaction is ours
        alone = alone or not self._in_transaction()
        levels = yield from self._lock(asked, values)
        if levels <= _SEE_WHAT_IS_COMMITTED:
            return
        if alone:
            # the snapshot is older than the lock: the other one's attempt is not in it (P9)
            yield ROLLBACK
            yield BEGIN
            yield self._text("attempt.isolation", asked).bind(values)
            yield from self._lock(asked, values)
            return
        try:
            yield self._text("attempt.refusable", asked).bind(values)
        except Exception as error:
            if sqlstate(error) != _NO_SUCH_INDEX:
                raise
            raise CallError(
                f"{asked.attempts}: your transaction is at {max(levels).upper()}, so it cannot see what others have started "
                "meanwhile, and the table has no unique index that would refuse a second open attempt: make the index of "
                "attempt_index_ddl, or begin the transaction at READ COMMITTED"
            ) from error

    def _lock(self, asked: StartRequest, values: dict[str, Any]) -> Program[set[str]]:
        """Take the locks; what comes back is the isolation level of the transaction that has them."""
        # first the owner, then the key, which another owner may want: nobody who has a key waits for an owner
        yield self._text("attempt.lock_owner", asked).bind(values)
        rows = yield self._text("attempt.lock_key", asked).bind(values)
        return {str(level) for level, *_ in rows}

    def current(self, asked: StartRequest) -> Program[dict[str, Any] | None]:
        """The owner's active attempt."""
        names: list[str] = yield from self._moves.columns(asked.attempts.lifecycle)
        slots = self.slots(asked) | {"row": ", ".join(f"t.{identifier(name)}" for name in names) or "1"}
        template = templates("raceproof.attempts", self.file)["attempt.current"]
        rows = yield template.prepare(slots, self._moves.style).bind(self._values(asked))
        return dict(zip(names, rows[0], strict=True)) if rows else None

    def expired(self, asked: StartRequest, limit: int, of_owner: bool = False) -> Program[Rows]:
        """The key columns of open attempts whose time is over; `of_owner`: only those of the owner that is named."""
        name = "attempt.expired_of" if of_owner else "attempt.expired"
        return (yield self._text(name, asked).bind(self._values(asked) | {"limit": limit}))

    def _values(self, asked: StartRequest) -> dict[str, Any]:
        values: dict[str, Any] = {f"key_{i}": part for i, part in enumerate(asked.parts)}
        values |= {"owner": asked.owner, "by": asked.by, "now": asked.now}
        values["ttl"] = asked.attempts.ttl
        values |= {f"column_{i}": value for i, value in enumerate(asked.columns.values())}
        return self._bindable(values)

    def _bindable(self, values: dict[str, Any]) -> dict[str, Any]:
        return values

    def _now(self, now: datetime | None) -> str:
        return "statement_timestamp()" if now is None else parameter("now") + "::timestamptz"

    def _text(self, name: str, asked: StartRequest) -> Prepared:
        key = (name, asked.attempts, asked.now is None, tuple(asked.columns))
        prepared = self._prepared.get(key)
        if prepared is None:
            template = templates("raceproof.attempts", self.file)[name]
            prepared = self._prepared[key] = template.prepare(self.slots(asked), self._moves.style)
        return prepared

    def slots(self, asked: StartRequest) -> dict[str, str]:
        attempts = asked.attempts
        spec = attempts.lifecycle
        now = self._now(asked.now)
        columns: dict[str, str] = {
            identifier(column): parameter(f"key_{i}") for i, column in enumerate(spec.key_columns)
        }
        columns[identifier(attempts.owner)] = parameter("owner")
        columns[identifier(spec.column)] = literal(spec.initial[0])
        if spec.revision:
            columns[identifier(spec.revision)] = "0"
        if attempts.started:
            columns[identifier(attempts.started)] = now
        columns |= {identifier(c): parameter(f"column_{i}") for i, c in enumerate(asked.columns)}
        declared = moves_sql.declared(spec)
        return {
            **declared,
            "owner": identifier(attempts.owner),
            "owner_columns": ", ".join(map(identifier, attempts.owner_columns)),
            # P9: another tenant's owner of the same name is another owner
            "tenant_matches": declared["tenant_matches"] if len(attempts.owner_columns) > 1 else "",
            "owner_text": self.cast.format(f"t.{identifier(attempts.owner)}"),
            "owner_spelled": _spelled(declared["table"], self._owner_parameters(attempts)),
            "key_spelled": _spelled(
                declared["table"], {column: f"key_{i}" for i, column in enumerate(spec.key_columns)}
            ),
            "fresh": self._fresh(attempts, now),
            "open": ", ".join(literal(status) for status in attempts.open),
            "t_keys": ", ".join(f"t.{identifier(column)}" for column in spec.key_columns),
            "columns": ", ".join(columns),
            "values": ", ".join(columns.values()),
            "key_text": moves_sql.key_text(spec, self.cast, row=""),
            "initial": literal(spec.initial[0]),
            "first_revision": "0" if spec.revision else "NULL",
            "now": now,
        }

    def _owner_parameters(self, attempts: Attempts) -> dict[str, str]:
        """The columns that say whose an attempt is, and the parameters for them."""
        tenant = attempts.lifecycle.tenant
        return {
            column: "key_0" if column == tenant and column != attempts.owner else "owner"
            for column in attempts.owner_columns
        }

    def _fresh(self, attempts: Attempts, now: str) -> str:
        if attempts.ttl is None or attempts.started is None:
            return "TRUE"
        return f"({self.words.plus(f't.{identifier(attempts.started)}', parameter('ttl'))} > {now})"


class SqliteAttempts(PostgresAttempts):
    """The same on SQLite, where the write lock is the owner's lock."""

    file = "sqlite.sql"
    words: Any = SqliteWords()
    cast = "CAST({} AS TEXT)"

    def _begin(self, asked: StartRequest) -> Statement:
        return BEGIN._replace(params=(self._text("attempt.lock", asked).text,))

    def _in_transaction(self) -> bool:
        return False

    def _wait_for_others(self, asked: StartRequest, values: dict[str, Any], alone: bool) -> Program[None]:
        """The lock is held already; but an owner or key that is spelled otherwise would be another one (P9)."""
        spec, owner = asked.attempts.lifecycle, asked.attempts.owner
        style = self._moves.style
        yield from found_otherwise(asked.attempts, spec.table, (owner,), (asked.owner,), style)
        yield from found_otherwise(asked.attempts, spec.table, spec.key_columns, asked.parts, style)

    def _bindable(self, values: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(values, bindable(tuple(values.values())), strict=True))

    def _now(self, now: datetime | None) -> str:
        return "strftime('%Y-%m-%d %H:%M:%f', 'now')" if now is None else parameter("now")


def _spelled(table: str, columns: Mapping[str, str]) -> str:
    """Parameters as their columns spell them: 07 and 7 are one number, a UUID in capitals is the same."""
    return ", ".join(
        _AS_SPELLED.format(column=identifier(column), table=table, given=parameter(name))
        for column, name in columns.items()
    )


def _user_key(spec: Any, parts: Sequence[Any]) -> Any:
    own = tuple(parts)[1:] if spec.tenant else tuple(parts)
    return own if len(own) > 1 else own[0]
