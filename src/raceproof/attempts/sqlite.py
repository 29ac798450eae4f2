"""Attempts on SQLite: the write lock is the owner's lock."""

from typing import Any

from raceproof.attempts.program import AttemptPrograms
from raceproof.attempts.request import StartRequest
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Program, Statement
from raceproof.moves.sqlite import SqliteMoves


class SqliteAttempts(AttemptPrograms):
    """On SQLite the write lock is the owner's lock."""

    def _plain_moves(self, dialect: SqliteDialect) -> SqliteMoves:
        return SqliteMoves(dialect)

    def _begin(self, asked: StartRequest) -> Statement:
        return self.dialect.begin(self.text("attempt.lock", asked).bind({}))

    def _wait_for_others(self, asked: StartRequest, values: dict[str, Any], alone: bool) -> Program[None]:
        """The lock is held already; but an owner or key that is spelled otherwise would be another one (P9)."""
        spec, owner = asked.attempts.lifecycle, asked.attempts.owner
        yield from self.dialect.not_found(asked.attempts, spec.table, (owner,), (asked.owner,))
        yield from self.dialect.not_found(asked.attempts, spec.table, spec.key_columns, asked.parts)
