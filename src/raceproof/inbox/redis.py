"""The inbox on Redis and Valkey: one script for many events; see `redis.lua` beside this file.

How durable an event is there, is for the server's configuration to say (`appendfsync always` for every single one).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from raceproof.claims.redis_index import index_key, line_key, lines_key
from raceproof.inbox.arrival import Arrival
from raceproof.inbox.declared import Inbox
from raceproof.inbox.program import InboxPrograms, Key, headers_text, key_of
from raceproof.inbox.reading import RedisInboxReading
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_text
from raceproof.kernel.lua import arguments, script
from raceproof.kernel.redis import RedisDialect, Scripts, seconds_of
from raceproof.kernel.statement import Program, Statement

FILES = (("raceproof.kernel", "counting.lua"), ("raceproof.inbox", "redis.lua"))
_EVENTS_IN_ONE_SCRIPT = 200


class RedisInbox(RedisInboxReading, InboxPrograms):
    """The programs of the inbox."""

    def __init__(self, dialect: RedisDialect) -> None:
        self._dialect = dialect

    def _stored(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[set[Key]]:
        if self._dialect.cluster:
            raise CallError(f"{inbox}: an inbox cannot live on a cluster, where its index and its events are apart")
        given = {} if now is None else {"given_now": seconds_of(now)}
        new: set[Key] = set()
        for start in range(0, len(arrivals), _EVENTS_IN_ONE_SCRIPT):
            some = arrivals[start : start + _EVENTS_IN_ONE_SCRIPT]
            keys, values = [index_key(inbox.work), lines_key(inbox.work)], [*given.values()]
            for one in some:
                member = key_text(key_of(one))
                row = self._dialect.row_of_text(inbox.lifecycle, member)
                keys += [row, line_key(inbox.work, one.ordering_key, member)]
                event: list[Any] = [one.source, one.event_id, one.ordering_key or "", one.body]
                values += [member, *event, headers_text(one.headers)]
            rows = yield Statement("inbox.receive", _SCRIPTS.get(tuple(given)), values, keys)
            new.update(key_of(one) for one, is_new in zip(some, rows, strict=True) if is_new)
        return new

    def forget(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]:
        return 0  # an event that has ended is forgotten by Redis itself
        yield


def script_of_inbox(given: tuple[str, ...]) -> str:
    """`redis.lua` for callers who give these values."""
    return script(FILES, "receive", {"given_now": None, **arguments(given), "first_event": len(given) + 1})


_SCRIPTS = Scripts(script_of_inbox)
