"""The inbox on Redis and Valkey: one script for many events; see `redis.lua` beside this file.

How durable an event is there, is for the server's configuration to say (`appendfsync always` for every single one).
"""

import json
from collections.abc import Sequence
from datetime import datetime

from raceproof.errors import CallError
from raceproof.inbox.declared import Inbox
from raceproof.inbox.outcome import Received
from raceproof.inbox.sql_programs import told
from raceproof.intake import Arrival
from raceproof.moves.redis import RedisMoves
from raceproof.moves.redis_index import index_key, line_key, lines_key
from raceproof.moves.request import key_text
from raceproof.statement import Program, Rows, Statement, source

SCRIPT = source("raceproof.inbox", "redis.lua")
_EVENTS_IN_ONE_SCRIPT = 200


class RedisInbox:
    """The programs of the inbox."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves

    def receive(
        self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None
    ) -> Program[list[Received]]:
        """Keep events, each once."""
        if self._moves.cluster:
            raise CallError(
                f"{inbox}: an inbox cannot live on a cluster, where its index and its events are apart"
            )
        spec = inbox.lifecycle
        places = [index_key(inbox.work), lines_key(inbox.work)]
        moment = "" if now is None else f"{now.timestamp():.6f}"
        new: set[tuple[str, str]] = set()
        for start in range(0, len(arrivals), _EVENTS_IN_ONE_SCRIPT):
            some = arrivals[start : start + _EVENTS_IN_ONE_SCRIPT]
            keys, values = list(places), [moment]
            for one in some:
                member = key_text((one.source, one.event_id))
                keys += [
                    self._moves.row_of_text(spec, member),
                    line_key(inbox.work, one.ordering_key, member),
                ]
                values += [member, one.source, one.event_id, one.ordering_key or "", one.body]  # type: ignore[list-item]
                values.append(json.dumps(dict(one.headers)))
            rows = yield Statement("inbox.receive", SCRIPT, values, keys)
            new.update((one.source, one.event_id) for one, made in zip(some, rows, strict=True) if made)
        return told(inbox, arrivals, new)

    def forget(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]:
        """Nothing: an event that has ended is forgotten by Redis itself."""
        return 0
        yield

    def counts(self, inbox: Inbox) -> Program[Rows]:
        """How many wait or are worked on, also behind others in their lines; those that have ended are not counted."""
        (waiting,) = yield Statement("inbox.counts", "HLEN", (lines_key(inbox.work),))
        return [["received or processing", waiting, None]]

    def listed(self, inbox: Inbox, status: str, limit: int) -> Program[Rows]:
        raise CallError(f"{inbox}: Redis cannot search hashes for events at {status!r}; ask for their keys")
        yield
