"""Attempts on PostgreSQL and SQLite: one transaction, in which starters of one owner go one after the other.

What ends the old attempt is an ordinary guarded move, with its history.
"""

from abc import abstractmethod
from typing import Any

from raceproof.attempts.answers import AlreadyActive, Rejected, StartAnswer, Started
from raceproof.attempts.declared import Attempts
from raceproof.attempts.reading import SqlAttemptReading
from raceproof.attempts.request import StartRequest
from raceproof.kernel.answers import Conflict, outages_as_answers
from raceproof.kernel.dialect import listed
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_text, user_key
from raceproof.kernel.quoting import identifier, literal, parameter
from raceproof.kernel.shown import shown_key
from raceproof.kernel.statement import Conflicted, Prepared, Program, Statement, inside, transaction
from raceproof.moves.request import request


class AttemptPrograms(SqlAttemptReading):
    """The programs of attempts in one dialect."""

    def __init__(self, dialect: Any) -> None:
        super().__init__(dialect)
        self._moves = self._plain_moves(dialect)

    def start(self, asked: StartRequest) -> Program[StartAnswer]:
        """Make a row the owner's active attempt; end, keep or respect the one that is open."""
        alone = not self.dialect.in_transaction()
        program = transaction(self._begin(asked), self._start(asked, alone))
        return outages_as_answers(asked.key, asked.attempts, program)

    def _start(self, asked: StartRequest, alone: bool) -> Program[StartAnswer]:
        attempts = asked.attempts
        spec = attempts.lifecycle
        values = self.values(asked)
        yield from self._wait_for_others(asked, values, alone)
        found = yield self.text("attempt.look", asked).bind(values)
        wanted = key_text(asked.parts)
        others: list[Any] = []
        for status, owner, fresh, is_open, *parts in found:
            if key_text(tuple(parts)) != wanted:
                others.append((status, fresh, parts))
            elif is_open and fresh and owner == str(asked.owner):
                return Started(asked.key, attempts, asked.owner, None, replayed=True)
            else:
                # P9: an attempt that has ended is never started again, nor taken from another owner
                return Rejected(asked.key, attempts, asked.owner, status)
        for status, fresh, parts in others:
            active = user_key(spec, parts)
            if fresh and asked.when_open == "keep":
                return AlreadyActive(active, attempts, asked.owner, status)
            if fresh and asked.when_open == "reject":
                return Rejected(asked.key, attempts, asked.owner, status, active)
        superseded = None
        for _, _, parts in others:
            superseded = user_key(spec, parts)
            change = (
                {attempts.link: asked.key if not isinstance(asked.key, tuple) else wanted} if attempts.link else None
            )
            ended = request(attempts.supersede, superseded, tenant=asked.tenant, set=change, by=asked.by, now=asked.now)
            answer = yield from inside(self._moves.one(ended))
            if isinstance(answer, Conflict):
                raise Conflicted from answer.cause
            if not answer.won:
                # P9: nothing of this start is kept, rather than two that are open
                raise CallError(
                    f"{attempts} of {shown_key(asked.owner)}: {shown_key(superseded)} could not be ended: {answer}"
                )
        made = yield self.text("attempt.insert", asked).bind(values)
        if not made:
            raise CallError(
                f"{attempts} of {shown_key(asked.owner)}: {shown_key(asked.key)} was inserted into {spec.table} by "
                "another process in the meantime"
            )
        if spec.history:
            yield self.text("attempt.note", asked).bind(values | {"key": made[0][0]})
        return Started(asked.key, attempts, asked.owner, superseded)

    @abstractmethod
    def _plain_moves(self, dialect: Any) -> Any:
        """The moves of this dialect: what ends the old attempt is an ordinary one."""

    @abstractmethod
    def _begin(self, asked: StartRequest) -> Statement:
        """What begins the transaction of a start."""

    @abstractmethod
    def _wait_for_others(self, asked: StartRequest, values: dict[str, Any], alone: bool) -> Program[None]:
        """From here on no other process starts an attempt of this owner, and what others started is seen, or refuses."""

    def values(self, asked: StartRequest) -> dict[str, Any]:
        values: dict[str, Any] = {f"key_{i}": part for i, part in enumerate(asked.parts)}
        values |= {"owner": asked.owner, "by": asked.by, "now": asked.now}
        values["ttl"] = asked.attempts.ttl
        values |= {f"column_{i}": value for i, value in enumerate(asked.columns.values())}
        return self.dialect.bound(values)

    def text(self, name: str, asked: StartRequest) -> Prepared:
        shape = (asked.attempts, asked.now is None, tuple(asked.columns))
        return self.texts.get(name, shape, lambda: self.slots(asked))

    def slots(self, asked: StartRequest) -> dict[str, str]:
        attempts = asked.attempts
        spec = attempts.lifecycle
        now = self.dialect.now(asked.now)
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
        declared = self.dialect.row(spec)
        return {
            **declared,
            "owner": identifier(attempts.owner),
            "owner_columns": ", ".join(map(identifier, attempts.owner_columns)),
            # P9: another tenant's owner of the same name is another owner
            "tenant_matches": declared["tenant_matches"] if len(attempts.owner_columns) > 1 else "",
            "status_text": self.dialect.status_text(spec),
            "lock_rows": self.dialect.row_lock,
            "owner_text": self.dialect.as_text.format(f"t.{identifier(attempts.owner)}"),
            "fresh": self._fresh(attempts, now),
            "open": listed(attempts.open),
            "columns": ", ".join(columns),
            "values": ", ".join(columns.values()),
            "key_text": self.dialect.key_text(spec, row=""),
            "initial": literal(spec.initial[0]),
            "first_revision": "0" if spec.revision else "NULL",
            "now": now,
        }

    def _fresh(self, attempts: Attempts, now: str) -> str:
        if attempts.ttl is None or attempts.started is None:
            return "TRUE"
        return f"({self.dialect.plus(f't.{identifier(attempts.started)}', parameter('ttl'))} > {now})"
