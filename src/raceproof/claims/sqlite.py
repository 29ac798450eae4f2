"""Claims on SQLite, as programs over the statements in `sqlite.sql`; each is one transaction."""

import json
import time
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Any

from raceproof.claims import answer, sql
from raceproof.claims.request import ClaimRequest
from raceproof.moves import sql as moves_sql
from raceproof.moves.request import key_parts
from raceproof.moves.sqlite import bindable
from raceproof.moves.sqlite_keys import found_otherwise
from raceproof.moves.words import SqliteWords
from raceproof.outcome import Claim, Conflict, GivenBack, Missing, Renewal, SetAside, Taken, Unknown
from raceproof.quoting import identifier, parameter
from raceproof.spec import Claimable
from raceproof.statement import (
    BEGIN,
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Rows,
    Statement,
    Style,
    templates,
    transaction,
)
from raceproof.statuses import text_of_status

_TEMPLATES = templates("raceproof.claims", "sqlite.sql")


_WORDS = SqliteWords()


class SqliteClaims:
    """The programs of claims; texts are rendered once and kept."""

    def __init__(self, style: Style) -> None:
        self._style: Style = style
        self._prepared: dict[Hashable, Prepared] = {}

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]:
        """Up to so many rows, in order, each for this caller alone."""
        started = time.monotonic()
        return (yield from transaction(self._begin(request.claim), self._acquire(request, started)))

    def _acquire(self, request: ClaimRequest, started: float) -> Program[list[Claim[Any, Any]]]:
        values = _values(request)
        due = yield self._text("claim.due", request).bind(values)
        return (yield from self._take(request, values, due, started)) if due else []

    def _take(
        self, request: ClaimRequest, values: dict[str, Any], due: Rows, started: float
    ) -> Program[list[Claim[Any, Any]]]:
        """Under the write lock: write the claim into rows that can be claimed."""
        claim = request.claim
        width = len(claim.lifecycle.key_columns)
        rows = json.dumps([list(row[:width]) for row in due])
        written = yield self._text("claim.take", request).bind({**values, "rows": rows})
        found = {tuple(row[:width]): row[width:] for row in written}
        deadline = started + request.lease
        claims = []
        for *parts, before, key in due:
            if tuple(parts) not in found:
                continue  # a trigger of the user's has passed it over, as it may on PostgreSQL
            fence, attempts, revision, *row = found[tuple(parts)]
            own = answer.user_key(claim, parts)
            claims.append(
                answer.claimed(
                    claim, own, fence, request.by, attempts, before, deadline, row or None, request.tenant
                )
            )
            if claim.lifecycle.history:
                moved = claim.move is not None and before != claim.move.target
                yield self._note(claim, request.now).bind(
                    {
                        **values,
                        "key": key,
                        "move": claim.move.name if claim.move else claim.name,
                        "outcome": "moved" if moved else "claimed",
                        "before": before,
                        "after": claim.move.target if claim.move else before,
                        "found_revision": revision,
                        "reason": None,
                    }
                )
        return claims

    def one(
        self, request: ClaimRequest, key: Any
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any] | Unknown[Any] | Conflict[Any]]:
        """One row by its key."""
        started = time.monotonic()
        try:
            return (yield from transaction(self._begin(request.claim), self._one(request, key, started)))
        except AcknowledgementLost as error:
            return Unknown(key, request.claim, None, error.__cause__ or error)
        except Conflicted as error:
            return Conflict(key, request.claim, error.__cause__ or error)

    def _one(
        self, request: ClaimRequest, key: Any, started: float
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any]]:
        claim = request.claim
        parts = bindable(key_parts(claim.lifecycle, key, request.tenant))
        values = _values(request) | {f"key_{i}": part for i, part in enumerate(parts)}
        found = yield self._text("claim.look", request).bind(values)
        if not found:
            spec = claim.lifecycle
            yield from found_otherwise(claim, spec.table, spec.key_columns, parts, self._style)
            return Missing(key, claim)
        before, unmet, holder, text = found[0]
        if unmet:
            return answer.taken(claim, key, before, unmet, holder, request.where)
        taken = yield from self._take(request, values, [(*parts, before, text)], started)
        return taken[0] if taken else answer.passed_over(claim, key, before)

    def set_aside(self, request: ClaimRequest) -> Program[list[SetAside[Any]]]:
        """Move rows out of the way that have had all their attempts."""
        if request.claim.exhausted is None or request.claim.cap is None:
            return []
        spent = yield self._text("claim.spent", request).bind(_values(request))
        if not spent:
            return []  # the usual end, without a write lock
        return (yield from transaction(self._begin(request.claim), self._set_aside(request)))

    def _set_aside(self, request: ClaimRequest) -> Program[list[SetAside[Any]]]:
        claim = request.claim
        assert claim.exhausted is not None
        values = _values(request)
        spent = yield self._text("claim.spent", request).bind(values)
        if not spent:
            return []
        width = len(claim.lifecycle.key_columns)
        rows = json.dumps([list(row[:width]) for row in spent])
        written = yield self._text("claim.set_aside", request).bind({**values, "rows": rows})
        found = {tuple(row[:width]): row[width:] for row in written}
        answers = []
        for *parts, before, key in spent:
            if tuple(parts) not in found:
                continue  # a trigger of the user's has passed it over, as it may on PostgreSQL
            attempts, revision = found[tuple(parts)]
            answers.append(answer.set_aside(claim, answer.user_key(claim, parts), attempts))
            if claim.lifecycle.history:
                noted = {"key": key, "move": claim.exhausted.name, "outcome": "moved", "before": before}
                noted |= {"after": claim.exhausted.target, "found_revision": revision, "reason": None}
                yield self._note(claim, request.now).bind({**values, **noted})
        return answers

    def renew(
        self, claims: Sequence[Claim[Any, Any]], lease: float, now: datetime | None, token: str
    ) -> Program[list[Renewal[Any, Any]]]:
        """Begin the lease anew, for those that still hold their row."""
        deadline = time.monotonic() + lease
        values = [{"lease": lease, "token": token, "now": now}] * len(claims)
        found = yield from self._changed(claims, "renew", values)
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
        values = [{"delay": delay, "reason": reason, "now": now} for delay in delays]
        found = yield from self._changed(claims, "refund" if refund else "rest", values)
        return [
            answer.released(one, delay) if isinstance(result, tuple) else result
            for one, delay, result in zip(claims, delays, found, strict=True)
        ]

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        """Who holds what: until, stale, status, holder, fence, attempts and the key's columns."""
        return (yield self._text("claim.list", request).bind(_values(request)))

    def add(self, claim: Claimable[Any], keys: Sequence[Any]) -> Program[None]:
        """Make rows that wait, unless they are there."""
        text = _TEMPLATES["claim.add"].prepare(sql.add_slots(claim), self._style)
        for parts in keys:
            yield text.bind({f"key_{i}": part for i, part in enumerate(bindable(parts))})

    def offer(self, claim: Claimable[Any], keys: Sequence[Any]) -> Program[None]:
        """Nothing: the rows are there already, and polling finds them."""
        return None
        yield

    def _changed(
        self, claims: Sequence[Claim[Any, Any]], how: str, values: Sequence[dict[str, Any]]
    ) -> Program[list[Any]]:
        if not claims:
            return []
        try:
            return (
                yield from transaction(self._begin(claims[0].move), self._change_each(claims, how, values))
            )
        except AcknowledgementLost as error:
            return [answer.unknown(one, error.__cause__ or error) for one in claims]
        except Conflicted as error:
            return [answer.conflict(one, error.__cause__ or error) for one in claims]

    def _change_each(
        self, claims: Sequence[Claim[Any, Any]], how: str, values: Sequence[dict[str, Any]]
    ) -> Program[list[Any]]:
        claim = claims[0].move
        change = self._change_text(claim, how, values[0]["now"])
        found_text = self._change_text(claim, "found", None)
        answers: list[Any] = []
        for one, own in zip(claims, values, strict=True):
            parts = bindable(key_parts(claim.lifecycle, one.key, one.tenant))
            keyed = {f"key_{i}": part for i, part in enumerate(parts)}
            bound = dict(zip(own, bindable(tuple(own.values())), strict=True)) | keyed
            rows = yield change.bind(bound | {"fence": one.fence})
            if not rows:
                found = yield found_text.bind(keyed)
                answers.append(
                    answer.lost(one, found[0][1], found[0][0], found[0][2]) if found else answer.missing(one)
                )
                continue
            fence, key, revision = rows[0]
            answers.append((fence,))
            if claim.lifecycle.history and how != "renew":
                noted = {"key": key, "move": claim.back.name if claim.back else claim.name, "by": one.by}
                held = claim.move.target if claim.move else text_of_status(one.before)
                noted |= {"outcome": "moved" if claim.back else "released", "before": held}
                noted |= {"after": text_of_status(answer.status_after(one)), "found_revision": revision}
                yield self._note(claim, own["now"]).bind(bound | noted)
        return answers

    # Texts

    def _begin(self, claim: Claimable[Any]) -> Statement:
        key = ("lock", claim)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = _TEMPLATES["claim.lock"].prepare(
                moves_sql.declared(claim.lifecycle), self._style
            )
        return BEGIN._replace(params=(prepared.text,))

    def _text(self, name: str, request: ClaimRequest) -> Prepared:
        key = (name, request.shape)
        prepared = self._prepared.get(key)
        if prepared is None:
            slots = self._slots(request.claim, request.now)
            slots |= sql.slots(request, _WORDS, _now(request.now))
            slots["unmet"] = sql.unmet(request, _WORDS, slots)
            slots["returning"] = "".join(", " + identifier(name, "`") for name in request.returning)
            prepared = self._prepared[key] = _TEMPLATES[name].prepare(slots, self._style)
        return prepared

    def _change_text(self, claim: Claimable[Any], how: str, now: datetime | None) -> Prepared:
        key = ("change", how, claim, now is None)
        prepared = self._prepared.get(key)
        if prepared is None:
            slots = self._slots(claim, now)
            name = "claim.found"
            if how != "found":
                name = "claim.change"
                slots["changes"] = sql.changes(claim, _WORDS, _now(now), how, parameter("delay"))
            prepared = self._prepared[key] = _TEMPLATES[name].prepare(slots, self._style)
        return prepared

    def _note(self, claim: Claimable[Any], now: datetime | None) -> Prepared:
        key = ("note", claim.lifecycle, now is None)
        prepared = self._prepared.get(key)
        if prepared is None:
            slots = {**moves_sql.declared(claim.lifecycle), "now": _now(now)}
            prepared = self._prepared[key] = _TEMPLATES["claim.note"].prepare(slots, self._style)
        return prepared

    def _slots(self, claim: Claimable[Any], now: datetime | None) -> dict[str, str]:
        spec = claim.lifecycle
        keys = [identifier(column) for column in spec.key_columns]
        return {
            **moves_sql.declared(spec),
            "t_keys": ", ".join(f"t.{key}" for key in keys),
            "key_text": moves_sql.key_text(spec, "CAST({} AS TEXT)"),
            "t_is_wanted": " AND ".join(
                f"t.{key} = json_extract(w.value, '$[{i}]')" for i, key in enumerate(keys)
            ),
            "fence": f"t.{identifier(claim.form.fence_column)}",
            "holder": sql.holder(claim),
            "held": sql.statuses(claim.held),
            "spent": sql.spent(claim) if claim.cap else "",
            "assignments": sql.set_aside(claim, _now(now)) if claim.exhausted else "",
            # RETURNING knows only the bare names of the row as written
            "bare_keys": ", ".join(identifier(column, "`") for column in spec.key_columns),
            "bare_key_text": moves_sql.key_text(spec, "CAST({} AS TEXT)", row=""),
            "bare_fence": identifier(claim.form.fence_column, "`"),
            "bare_attempts": identifier(claim.attempts, "`") if claim.attempts else "NULL",
            "bare_revision": identifier(spec.revision, "`") if spec.revision else "NULL",
        }


def _values(request: ClaimRequest) -> dict[str, Any]:
    values = request.values()
    return dict(zip(values, bindable(tuple(values.values())), strict=True))


def _now(now: datetime | None) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f', 'now')" if now is None else parameter("now")
