"""Attempts on PostgreSQL: starters of one owner wait for a lock on it."""

from collections.abc import Mapping
from typing import Any

from raceproof.attempts.declared import Attempts
from raceproof.attempts.program import AttemptPrograms
from raceproof.attempts.request import StartRequest
from raceproof.kernel.errors import CallError
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.quoting import identifier, parameter, qualified
from raceproof.kernel.sqlstate import sqlstate
from raceproof.kernel.statement import BEGIN, ROLLBACK, Program, Statement
from raceproof.moves.postgres import PostgresMoves

_SEE_WHAT_IS_COMMITTED = {"read committed", "read uncommitted"}  # PostgreSQL does the same for both
_AS_SPELLED = "COALESCE((SELECT s.{column} FROM {table} AS s LIMIT 0), {given})::text"
_NO_SUCH_INDEX = "42P10"  # invalid_column_reference: "… no unique or exclusion constraint matching …"


class PostgresAttempts(AttemptPrograms):
    """On PostgreSQL starters of one owner wait for a lock on it."""

    def _plain_moves(self, dialect: PostgresDialect) -> PostgresMoves:
        return PostgresMoves(dialect)

    def _begin(self, asked: StartRequest) -> Statement:
        return BEGIN

    def _wait_for_others(self, asked: StartRequest, values: dict[str, Any], alone: bool) -> Program[None]:
        """From here on no other process starts an attempt of this owner, and those that others have started are visible."""
        # some drivers know only by now that the transaction is ours
        alone = alone or not self.dialect.in_transaction()
        levels = yield from self._lock(asked, values)
        if levels <= _SEE_WHAT_IS_COMMITTED:
            return
        if alone:
            # the snapshot is older than the lock: the other one's attempt is not in it (P9)
            yield ROLLBACK
            yield BEGIN
            yield self.text("attempt.isolation", asked).bind(values)
            yield from self._lock(asked, values)
            return
        try:
            yield self.text("attempt.refusable", asked).bind(values)
        except Exception as error:
            if sqlstate(error) != _NO_SUCH_INDEX:
                raise
            raise CallError(
                f"{asked.attempts}: your transaction is at {max(levels).upper()}, so it cannot see what others have started "
                "meanwhile, and the table has no unique index that would refuse a second open attempt: make the index of "
                "`raceproof.ddl`, or begin the transaction at READ COMMITTED"
            ) from error

    def _lock(self, asked: StartRequest, values: dict[str, Any]) -> Program[set[str]]:
        """Take the locks; what comes back is the isolation level of the transaction that has them."""
        # first the owner, then the key, which another owner may want: no process that has a key waits for an owner
        yield self.text("attempt.lock_owner", asked).bind(values)
        rows = yield self.text("attempt.lock_key", asked).bind(values)
        return {str(level) for level, *_ in rows}

    def slots(self, asked: StartRequest) -> dict[str, str]:
        spec = asked.attempts.lifecycle
        keys = {column: f"key_{i}" for i, column in enumerate(spec.key_columns)}
        return super().slots(asked) | {
            "owner_spelled": _spelled(qualified(spec.table), _owner_parameters(asked.attempts)),
            "key_spelled": _spelled(qualified(spec.table), keys),
        }


def _owner_parameters(attempts: Attempts) -> dict[str, str]:
    """The columns that say whose an attempt is, and the parameters for them."""
    tenant = attempts.lifecycle.tenant
    return {
        column: "key_0" if column == tenant and column != attempts.owner else "owner"
        for column in attempts.owner_columns
    }


def _spelled(table: str, columns: Mapping[str, str]) -> str:
    """Parameters as their columns spell them: 07 and 7 are one number, a UUID in capitals is the same."""
    return ", ".join(
        _AS_SPELLED.format(column=identifier(column), table=table, given=parameter(name))
        for column, name in columns.items()
    )
