"""Deliveries: win a permit, send, and record how the send ended.

Each step is one decision of the store about one row. Keeps P5 and P7: only the current sender's record is accepted, and a
delivery whose last attempt may have arrived is sent again only as its policy says. Does not promise that it arrives once at
a receiver that does not deduplicate.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from raceproof.deliveries.answers import DeliveryRecorded, RecordAnswer, SendAnswer, SendPermit
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.request import SendRequest, permit_lost, record_values
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
        return (yield from outages_as_answers(request.key, request.delivery, self._take(request)))

    def _take(self, request: SendRequest) -> Program[SendAnswer]:
        deadline = time.monotonic() + request.delivery.stale
        match (yield from self._taken(request)):
            case Won(fence, doubt, attempts, row):
                return request.permit(fence, attempts, doubt, row or None, deadline)
            case Found() as found:
                return request.refused(*found)
        return (yield from self._missing(request))

    def mark(
        self, permit: SendPermit, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[RecordAnswer | SendPermit]:
        """Record how the send ended; or, with SENDING, that it goes on."""
        program = self._mark(permit, state, record_values(permit, state, error, now))
        return (yield from outages_as_answers(permit.key, permit.declared, program))

    def _mark(
        self, permit: SendPermit, state: DeliveryState, values: Mapping[str, Any]
    ) -> Program[RecordAnswer | SendPermit]:
        deadline = time.monotonic() + permit.declared.stale
        match (yield from self._recorded("mark", permit.declared, permit.parts, state, values)):
            case Won(fence) if state is DeliveryState.SENDING:
                return replace(permit, fence=fence, state=state, deadline=deadline)
            case Won():
                return DeliveryRecorded(permit.key, permit.declared, state)
            case Found(found, holder):
                return permit_lost(permit, found, holder)
        return Missing(permit.key, permit.declared)

    def resolve(self, request: SendRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        """Record the outcome of an uncertain delivery, after an operator has looked."""
        program = self._resolve(request, state, {**request.values(), "error": error})
        return (yield from outages_as_answers(request.key, request.delivery, program))

    def _resolve(self, request: SendRequest, state: DeliveryState, values: Mapping[str, Any]) -> Program[Any]:
        match (yield from self._recorded("resolve", request.delivery, request.parts, state, values)):
            case Won():
                return DeliveryRecorded(request.key, request.delivery, state)
            case Found() as found:
                return request.refused(*found)
        return (yield from self._missing(request))

    def _missing(self, request: SendRequest) -> Program[Missing[Any]]:
        return Missing(request.key, request.delivery)
        yield

    @abstractmethod
    def _taken(self, request: SendRequest) -> Program[Won | Found | None]:
        """Decide in the store whether the caller may send; None if the row is missing."""

    @abstractmethod
    def _recorded(
        self, action: str, delivery: Delivery, parts: tuple[Any, ...], state: DeliveryState, values: Mapping[str, Any]
    ) -> Program[Won | Found | None]:
        """Write the state, if the caller has the permit ("mark") or the outcome is unknown ("resolve")."""
