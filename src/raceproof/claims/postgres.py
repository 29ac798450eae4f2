"""Claims on PostgreSQL: each is one statement of `postgres.sql`."""

from collections.abc import Sequence
from typing import Any

from raceproof.claims import slots
from raceproof.claims.request import ClaimRequest
from raceproof.claims.sql import SqlClaims
from raceproof.declare.spec import Claimable
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.quoting import identifier, literal, parameter
from raceproof.kernel.statement import Prepared, Program, Row, Rows


class PostgresClaims(SqlClaims):
    """The programs of claims on one database."""

    dialect: PostgresDialect

    def _acquired(self, request: ClaimRequest) -> Program[Rows]:
        return (yield from self.dialect.retried(self.text("claim.acquire", request).bind(request.values())))

    def _claimed(self, request: ClaimRequest, parts: KeyParts) -> Program[Row | None]:
        values = request.values() | {f"key_{i}": part for i, part in enumerate(parts)}
        rows = yield self.text("claim.one", request).bind(values)
        return rows[0] if rows else None

    def _dead_lettered(self, request: ClaimRequest) -> Program[Rows]:
        return (yield self.text("claim.dead_letter", request).bind(request.values()))

    def offer(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]:
        yield self.texts.get("claim.offer", claim, lambda: {"topic": literal(claim.topic)}).bind({})

    def text(self, name: str, request: ClaimRequest) -> Prepared:
        return self.texts.get(name, request.shape, lambda: self.slots(name, request))

    def slots(self, name: str, request: ClaimRequest) -> dict[str, str]:
        found = slots.of_request(request, self.dialect)
        claim = request.claim
        columns = tuple(dict.fromkeys(c.removeprefix("-") for c in claim.order_by or claim.lifecycle.key))
        order = {column: f"rp_order_{i}" for i, column in enumerate(columns)}
        descending = {c[1:] for c in claim.order_by if c.startswith("-")}
        found |= {
            "limit": parameter("limit"),
            "t_order": ", ".join(f"t.{identifier(c)} AS {named}" for c, named in order.items()),
            "own_order": ", ".join(named + " DESC" * (c in descending) for c, named in order.items()),
        }
        noted = {"actor": parameter("by"), "reason": "NULL"}
        if name == "claim.dead_letter" and claim.dead_letter:
            move = claim.dead_letter
            noted |= {"move": literal(move.name), "after": literal(move.target), "note_outcome": "'moved'"}
        return found | {"noted": self.noted(claim, {**found, **noted})}

    def noted(self, claim: Claimable[Any], slots: dict[str, str]) -> str:
        return "\n" + self.texts.fill("claim.noted", slots) if claim.lifecycle.history else ""
