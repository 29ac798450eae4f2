"""Claims on SQLite: each is one transaction over a few statements of `sqlite.sql`."""

import json
from collections.abc import Sequence
from typing import Any

from raceproof.claims.request import ClaimRequest
from raceproof.claims.sql import SqlClaims
from raceproof.declare.spec import Claimable
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Program, Row, Rows, transaction


class SqliteClaims(SqlClaims):
    """The programs of claims."""

    dialect: SqliteDialect

    def _acquired(self, request: ClaimRequest) -> Program[Rows]:
        return (yield from transaction(self.begin(request.claim), self._acquire(request)))

    def _acquire(self, request: ClaimRequest) -> Program[Rows]:
        values = self.dialect.bound(request.values())
        due = yield self.text("claim.due", request).bind(values)
        return (yield from self._take(request, values, due))

    def _take(self, request: ClaimRequest, values: dict[str, Any], due: Rows) -> Program[list[Row]]:
        """Under the write lock: write the claim into rows that can be claimed."""
        claim, move = request.claim, request.claim.move
        rows: list[Row] = []
        for parts, before, key, row in (yield from self._written("claim.take", request, values, due)):
            fence, attempts, revision, *columns = row
            rows.append((fence, attempts, before, *parts, *columns))
            took_over = move is None or before == move.target
            noted = {"move": move.name if move else claim.name, "outcome": "claimed" if took_over else "moved"}
            noted |= {"key": key, "before": before, "after": move.target if move else before}
            yield from self.note(claim, {**values, **noted, "found_revision": revision})
        return rows

    def _claimed(self, request: ClaimRequest, parts: KeyParts) -> Program[Row | None]:
        return (yield from transaction(self.begin(request.claim), self._claim(request, parts)))

    def _claim(self, request: ClaimRequest, parts: KeyParts) -> Program[Row | None]:
        parts = tuple(self.dialect.stored(parts))
        values = self.dialect.bound(request.values()) | {f"key_{i}": part for i, part in enumerate(parts)}
        found = yield self.text("claim.look", request).bind(values)
        if not found:
            return None
        before, unmet, holder, key = found[0]
        taken = [] if unmet else (yield from self._take(request, values, [(*parts, before, key)]))
        fence, attempts, _, *row = taken[0] if taken else (None, None, None)
        return (before, unmet, holder, fence, attempts, *row[len(parts) :])

    def _dead_lettered(self, request: ClaimRequest) -> Program[Rows]:
        values = self.dialect.bound(request.values())
        spent = yield self.text("claim.spent", request).bind(values)
        if not spent:
            return []  # the usual end, without a write lock
        return (yield from transaction(self.begin(request.claim), self._dead_letter(request, values)))

    def _dead_letter(self, request: ClaimRequest, values: dict[str, Any]) -> Program[Rows]:
        move = request.claim.dead_letter
        assert move is not None
        spent = yield self.text("claim.spent", request).bind(values)
        rows: list[Row] = []
        for parts, before, key, row in (yield from self._written("claim.dead_letter", request, values, spent)):
            attempts, revision = row
            rows.append((attempts, *parts))
            noted = {"key": key, "move": move.name, "outcome": "moved", "before": before, "after": move.target}
            yield from self.note(request.claim, {**values, **noted, "found_revision": revision})
        return rows

    def _written(
        self, name: str, request: ClaimRequest, values: dict[str, Any], due: Rows
    ) -> Program[list[tuple[Row, str, str, Row]]]:
        """Write into these rows (key columns, status, key as text). One that a trigger passes over is left out."""
        if not due:
            return []
        width = len(request.claim.lifecycle.key_columns)
        keys = json.dumps([list(row[:width]) for row in due])
        rows = yield self.text(name, request).bind({**values, "rows": keys})
        found = {tuple(row[:width]): row[width:] for row in rows}
        return [
            (tuple(parts), before, key, found[tuple(parts)]) for *parts, before, key in due if tuple(parts) in found
        ]

    def offer(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]:
        return None
        yield
