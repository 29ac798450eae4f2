"""Attempts on Redis and Valkey: one script for one decision; see `redis.lua` beside this file.

On a cluster all keys of one owner must be in one slot: declare the owner as the lifecycle's `tenant`, which is the hash tag
there.
"""

import json
from collections.abc import Sequence
from typing import Any

from raceproof.attempts.declared import Attempts
from raceproof.attempts.outcome import Kept, Rejected, StartAnswer, Started
from raceproof.attempts.request import StartRequest
from raceproof.errors import CallError
from raceproof.moves.redis import RedisMoves, field_text, key_of_member, parts_of_text, text_of
from raceproof.moves.request import key_text
from raceproof.outcome import Unknown
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.attempts", "redis.lua")
_PATIENCE = 100


class RedisAttempts:
    """The programs of attempts, with the descriptions that they have encoded so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._described: dict[Attempts, str] = {}

    def start(self, asked: StartRequest) -> Program[StartAnswer]:
        """Make a row the owner's active attempt; end, keep or respect the one that is open."""
        attempts = asked.attempts
        spec = attempts.lifecycle
        owner = str(asked.owner)
        pointer, owned = self._keys(attempts, owner)
        columns = {
            name: field_text(name, value) for name, value in asked.columns.items() if value is not None
        }
        columns |= dict(zip(spec.key_columns, map(str, asked.parts), strict=True))
        now = "" if asked.now is None else f"{asked.now.timestamp():.6f}"
        wanted = key_text(asked.parts)
        try:
            for _ in range(_PATIENCE):
                (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
                old = text_of(found) or ""
                keys = [pointer, owned]
                for text in (wanted, old or wanted):
                    keys += [self._moves.row_of_text(spec, text), self._moves.history_of_text(spec, text)]
                given = [now, asked.when_open, old, wanted, json.dumps(columns), asked.by or "", owner]
                word, *told = yield Statement(
                    "attempt.start", SCRIPT, [self._description(attempts), *given], keys
                )
                if text_of(word) != "again":
                    return self._answer(asked, text_of(word), [text_of(part) for part in told], old)
        except AcknowledgementLost as error:
            return Unknown(asked.key, attempts, None, error.__cause__ or error)
        raise CallError(f"{attempts} of {owner!r}: others kept starting attempts; ask again")

    def _answer(self, asked: StartRequest, word: str, told: Sequence[Any], old: str) -> StartAnswer:
        attempts, spec = asked.attempts, asked.attempts.lifecycle
        match word:
            case "started":
                ended = key_of_member(spec, told[0], asked.tenant) if told[0] else None
                return Started(asked.key, attempts, asked.owner, ended)
            case "replayed":
                return Started(asked.key, attempts, asked.owner, None, replayed=True)
            case "kept":
                return Kept(key_of_member(spec, old, asked.tenant), attempts, asked.owner, told[0])
        active = key_of_member(spec, told[1], asked.tenant) if len(told) > 1 else None
        return Rejected(asked.key, attempts, asked.owner, told[0], active)

    def current(self, asked: StartRequest) -> Program[Sequence[Any] | None]:
        """The key columns of the owner's active attempt."""
        attempts = asked.attempts
        spec = attempts.lifecycle
        pointer, _ = self._keys(attempts, str(asked.owner))
        (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
        if found is None:
            return None
        text = text_of(found)
        row = self._moves.row_of_text(spec, text)
        (values,) = yield Statement(
            "attempt.row", "HMGET", (row, spec.column, attempts.started or spec.column)
        )
        status, began = map(text_of, values)
        if status not in attempts.open:
            return None
        if attempts.ttl is not None and attempts.started and began:
            (clock,) = yield Statement("time", "TIME")
            now = asked.now.timestamp() if asked.now else float(clock[0]) + float(clock[1]) / 1e6
            if float(began) + attempts.ttl <= now:
                return None
        return parts_of_text(spec, text)

    def expired(self, asked: StartRequest, limit: int) -> Program[Rows]:
        """None: a key of Redis ends by itself."""
        return []
        yield

    def _keys(self, attempts: Attempts, owner: str) -> tuple[str, str]:
        spec = attempts.lifecycle
        if self._moves.cluster and spec.tenant != attempts.owner:
            raise CallError(
                f"{attempts}: on a cluster the owner must be the tenant of {spec}, so that its keys are in one slot"
            )
        tagged = f"{{{owner}}}" if self._moves.cluster else owner
        active, owned = (
            attempts.active_key or f"{spec.table}/active",
            attempts.owned_key or f"{spec.table}/owned",
        )
        return f"{active}:{tagged}", f"{owned}:{tagged}"

    def _description(self, attempts: Attempts) -> str:
        described = self._described.get(attempts)
        if described is None:
            spec = attempts.lifecycle
            ends = spec.expires
            data = {
                "lifecycle": spec.name,
                "column": spec.column,
                "revision": spec.revision or False,
                "history": spec.history is not None,
                "open": [str(status) for status in attempts.open],
                "initial": str(spec.initial[0]),
                "owner": attempts.owner,
                "started": attempts.started or False,
                "ttl": attempts.ttl or False,
                "supersede": attempts.supersede.name,
                "superseded": str(attempts.supersede.target),
                "stamp": list(attempts.supersede.stamp),
                "link": attempts.link or False,
                "open_ttl": ends.open if ends else False,
                "ended_ttl": ends.ended if ends else False,
                "kept_ttl": max(ends.open, ends.ended) if ends else False,
            }
            described = self._described[attempts] = json.dumps(data)
        return described
