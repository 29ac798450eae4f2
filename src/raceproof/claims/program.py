"""Claims: rows of work taken exclusively, for a lease on the store's clock, with a fence that grows with every claim.

Each step is one decision of the store. Keeps P3, P4, P5 and P13. Does not promise that a previous holder has stopped
working; it learns that it has lost the row when it next writes. How each dialect decides is in the files beside this one.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from raceproof.claims.answers import Claim, DeadLettered, GivenBack, Renewal, Taken
from raceproof.claims.request import ClaimRequest, conflict, lost, missing, released, renewed, unknown
from raceproof.kernel.answers import Conflict, Missing, Unknown, outages_as_answers
from raceproof.kernel.keys import KeyParts, key_parts, user_key
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Program, Row, Rows

Found = tuple[bool, Any, str, str | None]
"""Of a claim that is renewed or given back: whether it still holds its row, the row's fence, status and holder."""


class ClaimPrograms(ABC):
    """The programs of claims; a dialect says how they are sent."""

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]:
        """Up to `limit` rows, in order, each for this caller alone."""
        claim, by, tenant = request.claim, request.by, request.tenant
        spec = claim.lifecycle
        started = time.monotonic()
        rows = yield from self._acquired(request)
        if spec.plain_key and not request.returning:
            # the usual case, without a call for each row
            deadline, status_of, make = started + request.lease, spec.status_of, Claim
            return [
                make(key, claim, fence, by, attempts or 1, status_of.get(before, before), deadline, None, tenant)
                for fence, attempts, before, key in rows
            ]
        end = 3 + len(spec.key_columns)
        return [
            request.claimed(user_key(spec, row[3:end]), row[0], row[1], row[2], started, row[end:] or None)
            for row in rows
        ]

    def one(
        self, request: ClaimRequest, key: Any
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any] | Unknown[Any] | Conflict[Any]]:
        """One row by its key."""
        return outages_as_answers(key, request.claim, self._one(request, key))

    def _one(self, request: ClaimRequest, key: Any) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any]]:
        parts = key_parts(request.claim.lifecycle, key, request.tenant)
        started = time.monotonic()
        row = yield from self._claimed(request, parts)
        if row is None:
            yield from self._not_found(request, parts)
            return Missing(key, request.claim)
        before, unmet, holder, fence, attempts, *columns = row
        if unmet:
            return request.taken(key, before, unmet, holder)
        if fence is None:
            return request.passed_over(key, before)
        return request.claimed(key, fence, attempts, before, started, columns or None)

    def dead_letter(self, request: ClaimRequest) -> Program[list[DeadLettered[Any]]]:
        """Move rows out of the way that have used up their attempts."""
        if request.claim.dead_letter is None or request.claim.max_attempts is None:
            return []
        rows = yield from self._dead_lettered(request)
        return [request.dead_lettered(user_key(request.claim.lifecycle, row[1:]), row[0]) for row in rows]

    def renew(
        self, claims: Sequence[Claim[Any, Any]], lease: float, now: datetime | None, token: str
    ) -> Program[list[Renewal[Any, Any]]]:
        """Start the lease again, for those that still hold their row."""
        deadline = time.monotonic() + lease
        values = {"lease": lease, "token": token, "now": now, "reason": None}
        found = yield from self._all_changed("renew", claims, values, [0.0] * len(claims))
        return [
            renewed(one, result[1], deadline) if isinstance(result, tuple) else result
            for one, result in zip(claims, found, strict=True)
        ]

    def give_back(
        self,
        claims: Sequence[Claim[Any, Any]],
        delays: Sequence[float],
        refund: bool,
        reason: str | None,
        now: datetime | None,
    ) -> Program[list[GivenBack[Any]]]:
        """End the claims of those that still hold their row; it backs off for its delay, or its attempt is refunded."""
        # what stands in for the lease where the form computes with one
        values = {"lease": 0.0, "token": "", "now": now, "reason": reason}
        found = yield from self._all_changed("refund" if refund else "back off", claims, values, delays)
        return [
            released(one, delay) if isinstance(result, tuple) else result
            for one, delay, result in zip(claims, delays, found, strict=True)
        ]

    def _all_changed(
        self, how: str, claims: Sequence[Claim[Any, Any]], values: dict[str, Any], delays: Sequence[float]
    ) -> Program[list[Any]]:
        """What was found of each claim that is still held, and the answer for each that is not."""
        found: list[Any] = []
        for some in self._together(len(claims)):
            asked = claims[some]
            try:
                rows = yield from self._changed(how, asked, values, delays[some])
            except AcknowledgementLost as error:
                found += [unknown(one, error) for one in asked]
            except Conflicted as error:
                found += [conflict(one, error) for one in asked]
            else:
                found += map(_held, asked, rows)
        return found

    def _together(self, number: int) -> Iterator[slice]:
        """How many claims are changed by one decision: all of them."""
        if number:
            yield slice(None)

    def _not_found(self, request: ClaimRequest, parts: KeyParts) -> Program[None]:
        """Refuse a key whose row is there under another spelling."""
        return
        yield

    @abstractmethod
    def _acquired(self, request: ClaimRequest) -> Program[Rows]:
        """Rows that are claimed now: fence, attempts, status before, the key's columns, the returned columns."""

    @abstractmethod
    def _claimed(self, request: ClaimRequest, parts: KeyParts) -> Program[Row | None]:
        """One row: status before, why it cannot be claimed, holder, fence, attempts, the returned columns."""

    @abstractmethod
    def _dead_lettered(self, request: ClaimRequest) -> Program[Rows]:
        """Rows that are out of the way now: attempts, the key's columns."""

    @abstractmethod
    def _changed(
        self, how: str, claims: Sequence[Claim[Any, Any]], values: dict[str, Any], delays: Sequence[float]
    ) -> Program[Sequence[Found | None]]:
        """Renew the claims, or give them back: what was found of each, None if the row is gone."""


def _held(one: Claim[Any, Any], found: Found | None) -> Any:
    """What was found of a claim that is still held; otherwise its answer."""
    if found is None:
        return missing(one)
    mine, fence, status, holder = found
    return found if mine else lost(one, status, fence, holder)
