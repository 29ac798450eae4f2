"""Claims on PostgreSQL, as programs over the statements in `postgres.sql`."""

import time
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Any

from raceproof.claims import answer, sql
from raceproof.claims.request import ClaimRequest
from raceproof.moves import sql as moves_sql
from raceproof.moves.postgres import PostgresMoves
from raceproof.moves.request import key_parts
from raceproof.moves.words import PostgresWords
from raceproof.outcome import Claim, Conflict, GivenBack, Missing, Renewal, SetAside, Taken, Unknown
from raceproof.quoting import identifier, literal, parameter
from raceproof.spec import Claimable
from raceproof.statement import (
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Rows,
    lines,
    templates,
    trying_again,
)

_TEMPLATES = templates("raceproof.claims", "postgres.sql")
_RETURNS_OLD = 18
_FEW = 32


_WORDS = PostgresWords()


class PostgresClaims:
    """The programs of claims on one database; the types of its columns are asked by its moves."""

    def __init__(self, moves: PostgresMoves) -> None:
        self._moves = moves
        self._style = moves.style
        self._prepared: dict[Hashable, Prepared] = {}

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]:
        """Up to so many rows, in order, each for this caller alone."""
        claim = request.claim
        spec = claim.lifecycle
        table = yield from self._moves.table(spec)
        # a plan for any number of rows is so much worse for a few that PostgreSQL would rather plan each time anew; but a
        # plan that is kept must not be one that was made for a small table
        kept = request.limit <= _FEW and (self._moves.by_index or table.grown)
        written = request.limit if kept else None
        key = ("acquire", request.shape, written)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._acquire_text(request, written, table.partitioned)
        started = time.monotonic()
        asked = prepared.bind(request.values())
        try:
            rows = yield asked
        except Conflicted:
            # at a higher isolation somebody else was quicker, and nothing was claimed here
            if self._moves.in_transaction():
                raise
            rows = yield from trying_again(asked, alone=True)
        deadline = started + request.lease
        end = 3 + len(spec.key_columns)
        by, tenant, plain = request.by, request.tenant, spec.plain_key
        if plain and not request.returning:
            status_of, make = spec.status_of, Claim
            return [
                make(
                    key,
                    claim,
                    fence,
                    by,
                    attempts or 1,
                    status_of.get(before, before),
                    deadline,
                    None,
                    tenant,
                )
                for fence, attempts, before, key in rows
            ]
        return [
            answer.claimed(
                claim,
                answer.user_key(claim, row[3:end]),
                row[0],
                by,
                row[1],
                row[2],
                deadline,
                row[end:] or None,
                tenant,
            )
            for row in rows
        ]

    def one(
        self, request: ClaimRequest, key: Any
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any] | Unknown[Any] | Conflict[Any]]:
        """One row by its key."""
        claim = request.claim
        values = request.values()
        parts = key_parts(claim.lifecycle, key, request.tenant)
        values |= {f"key_{i}": part for i, part in enumerate(parts)}
        started = time.monotonic()
        try:
            rows = yield self._text(
                ("one", request.shape), "claim.one", lambda: self._one_slots(request)
            ).bind(values)
        except AcknowledgementLost as error:
            return Unknown(key, claim, None, error.__cause__ or error)
        except Conflicted as error:
            return Conflict(key, claim, error.__cause__ or error)
        if not rows:
            return Missing(key, claim)
        before, unmet, holder, fence, attempts, *row = rows[0]
        if unmet:
            return answer.taken(claim, key, before, unmet, holder, request.where)
        if fence is None:
            return answer.passed_over(claim, key, before)
        deadline = started + request.lease
        return answer.claimed(
            claim, key, fence, request.by, attempts, before, deadline, row or None, request.tenant
        )

    def set_aside(self, request: ClaimRequest) -> Program[list[SetAside[Any]]]:
        """Move rows out of the way that have had all their attempts."""
        claim = request.claim
        if claim.exhausted is None or claim.cap is None:
            return []
        text = self._text(
            ("set_aside", request.shape), "claim.set_aside", lambda: self._set_aside_slots(request)
        )
        rows = yield text.bind(request.values())
        return [answer.set_aside(claim, answer.user_key(claim, row[1:]), row[0]) for row in rows]

    def renew(
        self, claims: Sequence[Claim[Any, Any]], lease: float, now: datetime | None, token: str
    ) -> Program[list[Renewal[Any, Any]]]:
        """Begin the lease anew, for those that still hold their row."""
        deadline = time.monotonic() + lease
        found = yield from self._change(claims, "renew", {"lease": lease, "token": token, "now": now})
        return [
            answer.renewed(one, result[0], deadline) if isinstance(result, tuple) else result
            for one, result in zip(claims, found, strict=True)
        ]

    def give_back(
        self,
        claims: Sequence[Claim[Any, Any]],
        delays: Sequence[float],
        refund: bool,
        reason: str | None,
        now: Any,
    ) -> Program[list[GivenBack[Any]]]:
        """End the claims of those that still hold their row; it rests for its delay, or its attempt is refunded."""
        how = "refund" if refund else "rest"
        # what stands in for the lease where the form computes with one
        values = {"lease": 0.0, "token": "", "now": now, "reason": reason, "rp_delay": list(delays)}
        found = yield from self._change(claims, how, values)
        return [
            answer.released(one, delay) if isinstance(result, tuple) else result
            for one, delay, result in zip(claims, delays, found, strict=True)
        ]

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        """Who holds what: until, stale, status, holder, fence, attempts and the key's columns."""
        text = self._text(("list", request.shape), "claim.list", lambda: self._slots(request))
        return (yield text.bind(request.values()))

    def add(self, claim: Claimable[Any], keys: Sequence[Any]) -> Program[None]:
        """Make rows that wait, unless they are there."""
        for parts in keys:
            text = self._text(("add", claim), "claim.add", lambda: sql.add_slots(claim))
            yield text.bind({f"key_{i}": part for i, part in enumerate(parts)})

    def offer(self, claim: Claimable[Any], keys: Sequence[Any]) -> Program[None]:
        """Wake up whoever listens; the rows are there already, and polling finds them too."""
        yield self._text(("offer", claim), "claim.offer", lambda: {"topic": literal(claim.topic)}).bind({})

    def _change(
        self, claims: Sequence[Claim[Any, Any]], how: str, values: dict[str, Any]
    ) -> Program[list[Any]]:
        if not claims:
            return []
        claim = claims[0].move
        spec = claim.lifecycle
        first: dict[Any, int] = {}
        again = [
            place
            for place, one in enumerate(claims)
            if first.setdefault((one.tenant, one.key), place) != place
        ]
        if again:
            # a row that one statement writes is not seen by it a second time: such claims are asked for one after the other
            return (yield from self._one_after_the_other(claims, how, values))
        types = yield from self._moves.column_types(spec)
        key = (how, claim, values["now"] is None, tuple(types.items()))
        prepared = self._text(
            key, "claim.change", lambda: self._change_slots(claim, how, types, values["now"])
        )
        parts = [key_parts(spec, one.key, one.tenant) for one in claims]
        arrays: dict[str, Any] = {
            f"rp_wanted_{i}": [p[i] for p in parts] for i in range(len(spec.key_columns))
        }
        arrays["rp_fence_wanted"] = [one.fence for one in claims]
        arrays["rp_by"] = [one.by for one in claims]
        alone = not self._moves.in_transaction()
        try:
            rows = yield from trying_again(prepared.bind({**values, **arrays}), alone)
        except AcknowledgementLost as error:
            return [answer.unknown(one, error.__cause__ or error) for one in claims]
        except Conflicted as error:
            return [answer.conflict(one, error.__cause__ or error) for one in claims]
        found: list[Any] = [answer.missing(one) for one in claims]
        for ordinal, mine, fence, before, holder in rows:
            one = claims[ordinal - 1]
            found[ordinal - 1] = (fence,) if mine else answer.lost(one, before, fence, holder)
        return found

    def _one_after_the_other(
        self, claims: Sequence[Claim[Any, Any]], how: str, values: dict[str, Any]
    ) -> Program[list[Any]]:
        found = []
        for place, one in enumerate(claims):
            own = (
                {**values, "rp_delay": values["rp_delay"][place : place + 1]}
                if "rp_delay" in values
                else values
            )
            found += yield from self._change([one], how, own)
        return found

    # Texts

    def _text(self, key: Hashable, name: str, slots: Any) -> Prepared:
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = _TEMPLATES[name].prepare(slots(), self._style)
        return prepared

    def _acquire_text(self, request: ClaimRequest, limit: int | None, partitioned: bool) -> Prepared:
        columns = list(
            dict.fromkeys(c.removeprefix("-") for c in request.claim.order_by or request.claim.lifecycle.key)
        )
        slots = self._slots(request)
        slots["limit"] = parameter("limit") if limit is None else f"{limit:d}"
        by_place = self._moves.version >= _RETURNS_OLD and not partitioned
        if by_place:
            slots["place"] = ", t.ctid AS rp_place"
            slots["from_due"] = ""
            slots["t_is_due"] = "t.ctid = ANY (ARRAY(SELECT rp_place FROM due))"
            slots["before"] = f"old.{identifier(request.claim.lifecycle.column)}::text"
        slots["t_order_as"] = ", ".join(f"t.{identifier(c)} AS rp_order_{i}" for i, c in enumerate(columns))
        descending = {c[1:] for c in request.claim.order_by if c.startswith("-")}
        slots["changed_order"] = ", ".join(
            f"rp_order_{i}" + (" DESC" if c in descending else "") for i, c in enumerate(columns)
        )
        return _TEMPLATES["claim.acquire"].prepare(slots, self._style)

    def _slots(self, request: ClaimRequest) -> dict[str, str]:
        claim = request.claim
        spec = claim.lifecycle
        columns = [identifier(column) for column in spec.key_columns]
        slots = sql.slots(request, _WORDS, _now(request.now))
        slots |= {
            "keys": ", ".join(f"t.{c} AS rp_key_{i}" for i, c in enumerate(columns)),
            "t_keys": ", ".join(f"t.{c}" for c in columns),
            "t_keys_as": ", ".join(f"t.{c} AS rp_key_{i}" for i, c in enumerate(columns)),
            "changed_keys": ", ".join(f"rp_key_{i}" for i in range(len(columns))),
            "place": "",
            "from_due": "FROM due",
            "before": "due.rp_before",
            "t_is_due": " AND ".join(f"t.{c} = due.rp_key_{i}" for i, c in enumerate(columns)),
            "t_is_cur": " AND ".join(f"t.{c} = cur.rp_key_{i}" for i, c in enumerate(columns)),
            "t_is_spent": " AND ".join(f"t.{c} = spent.rp_key_{i}" for i, c in enumerate(columns)),
            "revision": f"t.{identifier(spec.revision)}" if spec.revision else "NULL::bigint",
            "key_text": moves_sql.key_text(spec, "{}::text") if spec.history else "NULL::text",
            "returning": moves_sql.column_list(request.returning, "t."),
            "returned": moves_sql.column_list(request.returning, "changed."),
            "noted": "",
        }
        if spec.history:
            slots["after"] = literal(claim.move.target) if claim.move else "rp_before"
            slots["actor"] = parameter("by")
            slots["reason"] = "NULL"
            slots["noted"] = "\n" + _TEMPLATES["claim.note"].fill(slots)
        return slots

    def _one_slots(self, request: ClaimRequest) -> dict[str, str]:
        slots = self._slots(request)
        return slots | {"unmet": sql.unmet(request, _WORDS, slots)}

    def _set_aside_slots(self, request: ClaimRequest) -> dict[str, str]:
        claim = request.claim
        assert claim.exhausted is not None
        slots = self._slots(request)
        slots["spent"] = sql.spent(claim)
        slots["assignments"] = sql.set_aside(claim, _now(request.now))
        if claim.lifecycle.history:
            named = {"move": literal(claim.exhausted.name), "after": literal(claim.exhausted.target)}
            noted = slots | named | {"note_outcome": "'moved'"}
            slots["noted"] = "\n" + _TEMPLATES["claim.note"].fill(noted)
        return slots

    def _change_slots(
        self, claim: Claimable[Any], how: str, types: dict[str, str], now: datetime | None
    ) -> dict[str, str]:
        spec = claim.lifecycle
        columns = {f"rp_wanted_{i}": types[column] for i, column in enumerate(spec.key_columns)}
        columns["rp_fence_wanted"] = types.get(claim.form.fence_column, "bigint")
        resting = how == "rest" and claim.after is not None
        if resting:
            columns["rp_delay"] = "float8"
        noting = spec.history is not None and how != "renew"
        if noting:
            columns["rp_by"] = "text"
        quoted = [identifier(column) for column in spec.key_columns]
        slots = {
            **moves_sql.declared(spec),
            "arrays": lines((f"{parameter(name)}::{kind}[]" for name, kind in columns.items()), ","),
            "wanted": ", ".join(columns),
            "t_is_wanted": " AND ".join(f"t.{c} = w.rp_wanted_{i}" for i, c in enumerate(quoted)),
            "keys": ", ".join(f"t.{c} AS rp_key_{i}" for i, c in enumerate(quoted)),
            "t_keys": ", ".join(f"t.{c}" for c in quoted),
            "t_is_cur": " AND ".join(f"t.{c} = cur.rp_key_{i}" for i, c in enumerate(quoted)),
            "fence": f"t.{identifier(claim.form.fence_column)}",
            "holder": sql.holder(claim) + "::text",
            "held": sql.statuses(claim.held),
            "rest_wanted": (", w.rp_delay" if resting else "") + (", w.rp_by" if noting else ""),
            "changes": sql.changes(claim, _WORDS, _now(now), how, "cur.rp_delay"),
            "key_text": moves_sql.key_text(spec, "{}::text") if spec.history else "NULL::text",
            "revision": f"t.{identifier(spec.revision)}" if spec.revision else "NULL::bigint",
            "by_given": ", cur.rp_by" if noting else "",
            "noted": "",
        }
        if noting:
            note = {
                "move": literal(claim.back.name if claim.back else claim.name),
                "note_outcome": "'moved'" if claim.back else "'released'",
                "after": literal(claim.back.target) if claim.back else "rp_before",
                "actor": "rp_by",
                "reason": parameter("reason"),
                "now": _now(now),
            }
            slots["noted"] = "\n" + _TEMPLATES["claim.note"].fill(slots | note)
        return slots


def _now(now: datetime | None) -> str:
    # the same moment in the whole statement, so that an index can be asked for it
    return "statement_timestamp()" if now is None else parameter("now") + "::timestamptz"
