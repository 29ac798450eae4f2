"""The inbox on PostgreSQL: one statement stores all events; a duplicate is locked, so its answer waits for its commit."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from raceproof.inbox.arrival import Arrival
from raceproof.inbox.declared import Inbox
from raceproof.inbox.program import NO_HEADERS, Key, headers_text, key_of
from raceproof.inbox.sql import SqlInbox
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Program, Rows

T = TypeVar("T")
_TRIES = 5
"""How often an event is inserted or looked for that is neither new nor there."""


class PostgresInbox(SqlInbox):
    """The programs of the inbox."""

    def _stored(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[set[Key]]:
        new: set[Key] = set()
        asked = arrivals
        for _ in range(_TRIES):
            rows = yield from self._insert(inbox, asked, now)
            new.update((row[0], row[1]) for row in rows)
            if len(rows) == len(arrivals):
                return new
            seen = {key_of(one) for one in asked} - new
            if seen:
                rows = yield from self._lock(inbox, sorted(seen))
                seen.difference_update((row[0], row[1]) for row in rows)
            if not seen:
                return new
            # forgotten since, or never there on the server that a pooler led to now: it is new
            asked = [one for one in asked if key_of(one) in seen]
        raise CallError(
            f"{inbox}: {len(asked)} events, {key_of(asked[0])!r} among them, were not inserted and are not there either; "
            f"look for a trigger or a row-level policy on {inbox.table} that drops or hides them"
        )

    def _insert(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[Rows]:
        """Insert those that are not there; they come back."""
        lines = _unless_all_are([one.ordering_key for one in arrivals], None)
        events = arrivals if len(arrivals) == 1 else sorted(arrivals, key=_place if lines else key_of)
        first = events[0].source
        values = {
            "sources": _unless_all_are([one.source for one in events], first) or [first],
            "event_ids": [one.event_id for one in events],
            "ordering_keys": [one.ordering_key for one in events] if lines else [],
            "bodies": [one.body for one in events],
            "headers": _unless_all_are([headers_text(one.headers) for one in events], NO_HEADERS),
            "now": now,
        }
        return (yield from self.dialect.retried(self.text("inbox.receive", inbox, now).bind(values)))

    def _lock(self, inbox: Inbox, keys: Sequence[Key]) -> Program[Rows]:
        """Lock those that are there, so that they are durable when this is answered; they come back (P8)."""
        sources, event_ids = [source for source, _ in keys], [event_id for _, event_id in keys]
        values = {"sources": _unless_all_are(sources, sources[0]) or [sources[0]], "event_ids": event_ids}
        return (yield from self.dialect.retried(self.text("inbox.duplicates", inbox).bind(values)))


def _place(one: Arrival) -> tuple[str, ...]:
    """Those of a line come first and stay in their order; the others in one that all agree on: nobody waits in a ring."""
    return () if one.ordering_key is not None else key_of(one)


def _unless_all_are(values: list[T], usual: T) -> list[T]:
    """The values, or none of them where the statement knows them anyway: drivers are slow with each value of an array."""
    return values if values.count(usual) != len(values) else []
