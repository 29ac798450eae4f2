"""Deliveries: win a permit, send, and record how the send ended.

Each step is one decision of the store about one row. Keeps P5 and P7: only the current sender's record is accepted, and a
delivery whose last attempt may have arrived is sent again only as its policy says. Does not promise that it arrives once at
a receiver that does not deduplicate.
"""

import time
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from raceproof.deliveries.answers import DeliveryRecorded, RecordAnswer, SendAnswer, SendPermit
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.request import SendRequest, permit_lost
from raceproof.kernel.answers import Missing, outages_as_answers
from raceproof.kernel.statement import Program


class Won(NamedTuple):
    """The caller sends, or what it has recorded is written."""

    fence: Any
    doubt: Any = False
    attempts: Any = None
    row: Any = None


class Found(NamedTuple):
    """How the delivery stands, for a caller who may not."""

    state: str
    holder: Any
    since: Any


class DeliveryPrograms(ABC):
    """The programs of deliveries; a dialect says how they are sent."""

    def take(self, request: SendRequest) -> Program[SendAnswer]:
        """Get the permit to send, or learn who has it."""
        return outages_as_answers(request.key, request.delivery, self._take(request))

    def _take(self, request: SendRequest) -> Program[SendAnswer]:
        deadline = time.monotonic() + request.delivery.stale
        found = yield from self._taken(request)
        if isinstance(found, Won):
            return request.permit(found.fence, found.attempts, found.doubt, found.row or None, deadline)
        return request.refused(*found) if found else (yield from self._missing(request))

    def mark(
        self, permit: SendPermit, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[RecordAnswer | SendPermit]:
        """Record how the send ended; or, with SENDING, that it goes on."""
        return outages_as_answers(permit.key, permit.declared, self._mark(permit, state, error, now))

    def _mark(
        self, permit: SendPermit, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[RecordAnswer | SendPermit]:
        deadline = time.monotonic() + permit.declared.stale
        found = yield from self._recorded("mark", permit.declared, permit.parts, state, error, now, permit.fence)
        if isinstance(found, Won):
            if state is DeliveryState.SENDING:
                return replace(permit, fence=found.fence, state=state, deadline=deadline)
            return DeliveryRecorded(permit.key, permit.declared, state)
        return permit_lost(permit, found.state, found.holder) if found else Missing(permit.key, permit.declared)

    def resolve(self, request: SendRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        """Record the outcome of an uncertain delivery, after an operator has looked."""
        return outages_as_answers(request.key, request.delivery, self._resolve(request, state, error))

    def _resolve(self, request: SendRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        found = yield from self._recorded("resolve", request.delivery, request.parts, state, error, request.now)
        if isinstance(found, Won):
            return DeliveryRecorded(request.key, request.delivery, state)
        return request.refused(*found) if found else (yield from self._missing(request))

    def _missing(self, request: SendRequest) -> Program[Missing[Any]]:
        return Missing(request.key, request.delivery)
        yield

    @abstractmethod
    def _taken(self, request: SendRequest) -> Program[Won | Found | None]:
        """Decide in the store whether the caller may send; None if the row is missing."""

    @abstractmethod
    def _recorded(
        self,
        action: str,
        delivery: Delivery,
        parts: tuple[Any, ...],
        state: DeliveryState,
        error: str | None,
        now: datetime | None,
        fence: Any = None,
    ) -> Program[Won | Found | None]:
        """Write the state, if the caller has the permit ("mark") or the outcome is unknown ("resolve")."""
