"""Attempts on Redis and Valkey: a declaration has one script, and each start runs it once; see `redis.lua`.

On a cluster all keys of one owner must be in one slot: declare the owner as the lifecycle's `tenant`, which is the hash tag
there. And all must be in KEYS: so the pointer to the open attempt is read before, and again if it has changed.
"""

from collections.abc import Sequence
from typing import Any

from raceproof.attempts.declared import Attempts
from raceproof.attempts.outcome import Kept, Rejected, StartAnswer, Started
from raceproof.attempts.request import StartRequest
from raceproof.errors import CallError
from raceproof.lua import script
from raceproof.moves.redis import RedisMoves, field_text, key_of_member, parts_of_text, text_of
from raceproof.moves.request import key_text
from raceproof.outcome import Unknown
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.attempts", "redis.lua")
_PATIENCE = 100


class RedisAttempts:
    """The programs of attempts, with the scripts that they have rendered so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._scripts: dict[Attempts, str] = {}

    def start(self, asked: StartRequest) -> Program[StartAnswer]:
        """Make a row the owner's active attempt; end, keep or respect the one that is open."""
        attempts = asked.attempts
        owner = str(asked.owner)
        pointer, owned = self._keys(attempts, owner)
        now = "" if asked.now is None else f"{asked.now.timestamp():.6f}"
        wanted, old = key_text(asked.parts), ""
        columns = _columns(asked, owner)
        keys = [pointer, owned, *self._row(attempts, wanted)]
        try:
            for _ in range(_PATIENCE):
                named = keys
                if self._moves.cluster:
                    (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
                    old = text_of(found) or ""
                    named = [*keys, *self._row(attempts, old or wanted)]
                given = [now, asked.when_open, wanted, asked.by or "", old, *columns]
                word, *told = yield Statement("attempt.start", self._script(attempts), given, named)
                if text_of(word) != "again":
                    return self._answer(asked, text_of(word), [text_of(part) for part in told])
        except AcknowledgementLost as error:
            return Unknown(asked.key, attempts, None, error.__cause__ or error)
        raise CallError(f"{attempts} of {owner!r}: others kept starting attempts; ask again")

    def _answer(self, asked: StartRequest, word: str, told: Sequence[Any]) -> StartAnswer:
        attempts, spec = asked.attempts, asked.attempts.lifecycle
        match word:
            case "started":
                ended = key_of_member(spec, told[0], asked.tenant) if told[0] else None
                return Started(asked.key, attempts, asked.owner, ended)
            case "replayed":
                return Started(asked.key, attempts, asked.owner, None, replayed=True)
            case "kept":
                return Kept(key_of_member(spec, told[1], asked.tenant), attempts, asked.owner, told[0])
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

    def _row(self, attempts: Attempts, text: str) -> tuple[str, str]:
        spec = attempts.lifecycle
        return self._moves.row_of_text(spec, text), self._moves.history_of_text(spec, text)

    def _script(self, attempts: Attempts) -> str:
        made = self._scripts.get(attempts)
        if made is None:
            made = self._scripts[attempts] = script_of_attempts(attempts, self._moves.cluster)
        return made


def _columns(asked: StartRequest, owner: str) -> list[str]:
    """The fields of the new row and their values in turn; what the row is and whose it is comes last, and so counts."""
    spec = asked.attempts.lifecycle
    given = {name: field_text(name, value) for name, value in asked.columns.items() if value is not None}
    given |= dict(zip(spec.key_columns, map(str, asked.parts), strict=True))
    given[asked.attempts.owner] = owner
    return [part for field in given.items() for part in field]


def script_of_attempts(attempts: Attempts, cluster: bool = False) -> str:
    """`redis.lua` for this declaration."""
    spec, move = attempts.lifecycle, attempts.supersede
    ends = spec.expires
    constants = {
        "lifecycle": spec.name,
        "column": spec.column,
        "revision_column": spec.revision or "",
        "started_column": attempts.started or "",
        "link_column": attempts.link or "",
        "history": spec.history is not None,
        "open": dict.fromkeys(attempts.open, True),
        "initial": spec.initial[0],
        "supersede": move.name,
        "superseded": move.target,
        "stamps": move.stamp,
        "ttl": attempts.ttl or None,
        "open_ttl": ends.open if ends else None,
        "ended_ttl": ends.ended if ends else None,
        "kept_ttl": max(ends.open, ends.ended) if ends else None,
        "cluster": cluster,
        "row_prefix": f"{spec.table}:",
        "stream_prefix": f"{spec.table}/history:",
    }
    wanted = {"history": spec.history, "expires": ends}
    return script([SCRIPT], constants, [name for name, value in wanted.items() if value])
