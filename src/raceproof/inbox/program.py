"""The inbox: events of others, each stored once, before they are answered.

Promise: when `receive` returns, the event is durable; the same event id is worked on once while it is remembered (P8). Does
not promise an order between events that arrive at the same time.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from raceproof.inbox.answers import Received
from raceproof.inbox.arrival import Arrival
from raceproof.inbox.declared import Inbox
from raceproof.kernel.statement import Program

NO_HEADERS = "{}"
Key = tuple[str, str]
key_of = itemgetter(0, 1)
"""The source and the id of an arrival."""


class InboxPrograms(ABC):
    """The programs of the inbox; a dialect says how they are sent."""

    def receive(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[list[Received]]:
        """Store events, each once; when this returns they are durable."""
        new = yield from self._stored(inbox, arrivals, now)
        answers = []
        for key in map(key_of, arrivals):
            answers.append(Received(key, inbox, duplicate=key not in new))
            new.discard(key)  # one that was brought twice at once is new the first time
        return answers

    @abstractmethod
    def _stored(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[set[Key]]:
        """Store events; which of them are new. The others are durable too when this returns."""

    @abstractmethod
    def forget(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]:
        """Delete events that ended long ago; how many there were."""


def headers_text(headers: Mapping[str, str]) -> str:
    return json.dumps(dict(headers)) if headers else NO_HEADERS
