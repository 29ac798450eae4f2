"""Claims on PostgreSQL with a plan that can be kept, rows found by their places, and many claims changed in one statement.

The rule: a search looks for the same rows as claim.acquire, with the same conditions, and locks them in the same order; many
claims are changed under the conditions of claim.change, and locked in key order.
"""

from collections.abc import Sequence
from typing import Any

from raceproof.claims import slots
from raceproof.claims.answers import Claim
from raceproof.claims.postgres import PostgresClaims
from raceproof.claims.program import Found
from raceproof.claims.request import ClaimRequest
from raceproof.declare.spec import Claimable
from raceproof.kernel.dialect import lines
from raceproof.kernel.keys import key_parts
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.quoting import identifier, literal, parameter
from raceproof.kernel.statement import Prepared, Program, Rows

_FEW = 32


class FastPostgresClaims(PostgresClaims):
    """The same programs with a quicker search."""

    def __init__(self, dialect: PostgresDialect) -> None:
        super().__init__(dialect)
        self._fast_texts = dialect.texts("claims.fast")

    def _acquired(self, request: ClaimRequest) -> Program[Rows]:
        table = yield from self.dialect.table(request.claim.lifecycle)
        # a plan for any number of rows is so much worse for a few that PostgreSQL would rather plan each time again; but a
        # plan that is kept must not be one that was made for a small table
        kept = request.limit <= _FEW and (self.dialect.by_index or table.grown)
        limit = request.limit if kept else None
        texts = self._fast_texts if self.dialect.returns_old and not table.partitioned else self.texts
        text = texts.get("claim.acquire", (request.shape, limit), lambda: self._limited(request, limit))
        return (yield from self.dialect.retried(text.bind(request.values())))

    def _limited(self, request: ClaimRequest, limit: int | None) -> dict[str, str]:
        found = self.slots("claim.acquire", request)
        return found if limit is None else {**found, "limit": f"{limit:d}"}

    def _changed(
        self, how: str, claims: Sequence[Claim[Any, Any]], values: dict[str, Any], delays: Sequence[float]
    ) -> Program[Sequence[Found | None]]:
        spec = claims[0].declared.lifecycle
        parts = [key_parts(spec, one.key, one.tenant) for one in claims]
        if len(set(parts)) < len(parts):
            # a row that a statement writes is not seen by it a second time: such claims are changed one after the other
            return (yield from super()._changed(how, claims, values, delays))
        types = yield from self.dialect.column_types(spec)
        arrays: dict[str, Any] = {f"rp_wanted_{i}": list(column) for i, column in enumerate(zip(*parts, strict=True))}
        arrays["rp_fence_wanted"] = [one.fence for one in claims]
        arrays["rp_by"] = [one.by for one in claims]
        text = self._change_many_text(how, claims[0].declared, types, values)
        rows = yield from self.dialect.retried(text.bind({**values, **arrays, "rp_delay": list(delays)}))
        answers: list[Found | None] = [None] * len(claims)
        for ordinal, *row in rows:
            answers[ordinal - 1] = tuple(row)
        return answers

    def _change_many_text(
        self, how: str, claim: Claimable[Any], types: dict[str, str], values: dict[str, Any]
    ) -> Prepared:
        shape = (how, claim, values["now"] is None, tuple(types.items()))
        return self._fast_texts.get("claim.change_many", shape, lambda: self._change_slots(how, claim, types, values))

    def _change_slots(
        self, how: str, claim: Claimable[Any], types: dict[str, str], values: dict[str, Any]
    ) -> dict[str, str]:
        spec, now = claim.lifecycle, self.dialect.now(values["now"])
        delayed = how == "back off" and claim.not_before is not None
        noting = spec.history is not None and how != "renew"
        wanted = {f"rp_wanted_{i}": types[column] for i, column in enumerate(spec.key_columns)}
        matches = [f"t.{identifier(c)} = w.{name}" for c, name in zip(spec.key_columns, wanted, strict=True)]
        wanted["rp_fence_wanted"] = types.get(claim.form.fence_column, "bigint")
        own = {"rp_delay": "float8"} if delayed else {}
        own |= {"rp_by": "text"} if noting else {}
        found = slots.of_claim(claim, self.dialect, now) | {
            "arrays": lines((f"{parameter(name)}::{kind}[]" for name, kind in (wanted | own).items()), ","),
            "wanted": ", ".join(wanted | own),
            "t_is_wanted": " AND ".join(matches),
            "own_wanted": "".join(f", w.{name}" for name in own),
            "changes": slots.changes(claim, self.dialect, now, how, "cur.rp_delay"),
            "by_given": ", cur.rp_by" if noting else "",
            "noted": "",
        }
        if noting:
            found["noted"] = self.noted(
                claim,
                {
                    **found,
                    "move": literal(claim.back.name if claim.back else claim.name),
                    "note_outcome": "'moved'" if claim.back else "'released'",
                    "after": literal(claim.back.target) if claim.back else "rp_before",
                    "actor": "rp_by",
                    "reason": parameter("reason"),
                },
            )
        return found
