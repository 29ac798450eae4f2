"""Claims on SQL databases: what PostgreSQL and SQLite share. How each takes rows is in the files beside this one."""

from collections.abc import Sequence
from typing import Any

from raceproof.claims import slots
from raceproof.claims.answers import Claim
from raceproof.claims.program import ClaimPrograms, Found
from raceproof.claims.reading import SqlClaimReading
from raceproof.claims.request import ClaimRequest, status_after
from raceproof.declare.spec import Claimable
from raceproof.declare.statuses import text_of_status
from raceproof.kernel.keys import KeyParts, key_parts
from raceproof.kernel.quoting import parameter
from raceproof.kernel.statement import Prepared, Program, Statement, transaction


class SqlClaims(SqlClaimReading, ClaimPrograms):
    """What the programs of claims share on SQL databases."""

    def add(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]:
        """Insert rows that wait, unless they are there."""
        text = self.texts.get("claim.add", claim, lambda: slots.added(claim, self.dialect))
        for parts in keys:
            yield text.bind(self.dialect.bound({f"key_{i}": part for i, part in enumerate(parts)}))

    def _changed(
        self, how: str, claims: Sequence[Claim[Any, Any]], values: dict[str, Any], delays: Sequence[float]
    ) -> Program[Sequence[Found | None]]:
        body = self._change_each(how, claims, values, delays)
        return (yield from transaction(self.begin(claims[0].declared), body))

    def _change_each(
        self, how: str, claims: Sequence[Claim[Any, Any]], values: dict[str, Any], delays: Sequence[float]
    ) -> Program[list[Found | None]]:
        claim = claims[0].declared
        spec, back = claim.lifecycle, claim.back
        change, look = self._change_text(how, claim, values), self._plain("claim.found", claim, None)
        answers: list[Found | None] = []
        for one, delay in zip(claims, delays, strict=True):
            keyed = {f"key_{i}": part for i, part in enumerate(key_parts(spec, one.key, one.tenant))}
            bound = self.dialect.bound({**values, **keyed, "delay": delay})
            rows = yield change.bind(bound | {"fence": one.fence})
            if not rows:
                found = yield look.bind(bound)
                answers.append((False, *found[0]) if found else None)
                continue
            fence, key, revision = rows[0]
            held = claim.move.target if claim.move else text_of_status(one.before)
            answers.append((True, fence, held, None))
            if how != "renew":
                noted = {"key": key, "move": back.name if back else claim.name, "by": one.by, "before": held}
                noted |= {"outcome": "moved" if back else "released", "after": text_of_status(status_after(one))}
                yield from self.note(claim, {**bound, **noted, "found_revision": revision})
        return answers

    def note(self, claim: Claimable[Any], values: dict[str, Any]) -> Program[None]:
        if claim.lifecycle.history:
            yield self._plain("claim.note", claim, values["now"]).bind({"reason": None, **values})

    def begin(self, claim: Claimable[Any]) -> Statement:
        text = self.texts.get("claim.lock", claim, lambda: self.dialect.row(claim.lifecycle))
        return self.dialect.begin(text.bind({}))

    def _plain(self, name: str, claim: Claimable[Any], now: Any) -> Prepared:
        clock = self.dialect.now(now)
        return self.texts.get(name, (claim, clock), lambda: slots.of_claim(claim, self.dialect, clock))

    def _change_text(self, how: str, claim: Claimable[Any], values: dict[str, Any]) -> Prepared:
        def made() -> dict[str, str]:
            now = self.dialect.now(values["now"])
            changes = slots.changes(claim, self.dialect, now, how, parameter("delay"))
            return {**slots.of_claim(claim, self.dialect, now), "changes": changes}

        return self.texts.get("claim.change", (how, claim, values["now"] is None), made)

    def text(self, name: str, request: ClaimRequest) -> Prepared:
        return self.texts.get(name, request.shape, lambda: slots.of_request(request, self.dialect))

    def _not_found(self, request: ClaimRequest, parts: KeyParts) -> Program[None]:
        spec = request.claim.lifecycle
        return self.dialect.not_found(request.claim, spec.table, spec.key_columns, parts)
