"""An inbox: how many events wait, since when, how soon they are done with, and which are dead."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.claims.redis_index import lines_key
from raceproof.inbox import Inbox
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import qualified
from raceproof.kernel.statement import Program, Statement
from raceproof.ops.web.queries import redis_rows
from raceproof.ops.web.queries.rows import MOST, Count
from raceproof.ops.web.queries.statements import statement, whole_number
from raceproof.store import AsyncStore

_ENDED = 1_000
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Event:
    """One event, without what is in it."""

    source: str
    event_id: str
    status: str
    attempts: int
    received: datetime | None
    holder: str | None
    other: datetime | None
    """When a waiting one may be tried again, or a dead one died."""


@dataclass(frozen=True, slots=True)
class InboxView:
    counts: dict[str, Count]
    oldest: datetime | None
    first: Sequence[Event]
    dead: Sequence[Event]
    half: float | None
    """Seconds from receipt to end: half of the last events took at most so long."""
    most: float | None
    """The same for 95 of 100."""
    note: str = ""
    ended: int = 0
    """From how many events these times are."""
    since: datetime | None = None
    """When the oldest of the ended ones that were looked at had ended, if there are more."""

    @property
    def more(self) -> bool:
        """There may be dead ones that are not listed."""
        return len(self.dead) >= _SHOWN or (self.since is not None) or bool(self.note)


def inbox(store: AsyncStore, box: Inbox) -> Program[InboxView]:
    """Look at what is open by its index, and at what has ended last."""
    if store.dialect == "redis":
        return (yield from _on_redis(store, box))
    slots = {"table": qualified(box.table)}
    rows = yield statement(store, "web.inbox_open", slots, {"window": MOST + 1})
    full = sum(int(number) for _, number, _ in rows) > MOST
    counts = {str(status): Count(int(number), more=full) for status, number, _ in rows}
    oldest = min((moment(since) for _, _, since in rows), default=None)
    first = yield statement(store, "web.inbox_first", slots, {"limit": 20})
    ended = yield statement(store, "web.inbox_ended", slots, {"window": _ENDED})
    for status in ("done", "dead"):
        number = sum(row[0] == status for row in ended)
        if number:
            counts[status] = Count(number, more=len(ended) == _ENDED)
    dead = yield statement(store, "web.inbox_dead", slots, {"window": _ENDED, "limit": _SHOWN})
    since = moment(ended[-1][2]) if len(ended) == _ENDED and ended[-1][2] else None
    took = sorted((moment(end) - moment(begin)).total_seconds() for _, begin, end in ended[:1000] if end)
    return InboxView(
        counts,
        oldest,
        [_event(row) for row in first],
        [_event(row) for row in dead],
        took[len(took) // 2] if took else None,
        took[int(len(took) * 0.95)] if took else None,
        ended=len(took),
        since=since,
    )


def _on_redis(store: AsyncStore, box: Inbox) -> Program[InboxView]:
    found: Sequence[Any] = yield Statement("web.index", "HLEN", (lines_key(box.work),))
    fields = ("source", "event_id", "status", "attempts", "received_at", "claimed_by", "ended_at")
    looked = yield from redis_rows.look(store, box.table, fields)
    counts: dict[str, Count] = {}
    events = []
    for _, row in looked.rows:
        if row[2] is not None:
            events.append(_event(row))
            known = counts.get(row[2], Count(0))
            counts[row[2]] = Count(known.number + 1, more=not looked.complete)
    if not looked.complete:
        counts["received or processing"] = Count(int(found[0]))
    open_ones = sorted(
        (one for one in events if one.status in ("received", "processing")), key=lambda one: str(one.received)
    )
    took = sorted(
        (one.other - one.received).total_seconds()
        for one in events
        if one.status == "done" and one.other and one.received
    )
    return InboxView(
        counts,
        open_ones[0].received if open_ones else None,
        open_ones[:20],
        [one for one in events if one.status == "dead"][:_SHOWN],
        took[len(took) // 2] if took else None,
        took[int(len(took) * 0.95)] if took else None,
        looked.note,
        ended=len(took),
    )


def _event(row: Sequence[Any]) -> Event:
    source, event_id, status, attempts, received, holder, other = row
    return Event(
        str(source), str(event_id), str(status), whole_number(attempts) or 0, moment(received) if received else None,
        holder, moment(other) if other else None,
    )  # fmt: skip
