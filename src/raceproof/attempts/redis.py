"""Attempts on Redis and Valkey: a declaration has one script, and each start runs it once; see `redis.lua`.

On a cluster all keys of one owner must be in one slot: declare the owner as the lifecycle's `tenant`, which is the hash tag
there. And all must be in KEYS: so the pointer to the open attempt is read before, and again if it has changed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from raceproof.attempts.declared import Attempts
from raceproof.attempts.outcome import Kept, Rejected, StartAnswer, Started
from raceproof.attempts.request import StartRequest, WhenOpen
from raceproof.errors import CallError
from raceproof.lua import Expression, arguments, in_turn, script
from raceproof.moves.redis import RedisMoves
from raceproof.moves.redis_index import COUNTING
from raceproof.moves.redis_script import EndedClaims
from raceproof.moves.redis_texts import field_text, key_of_member, parts_of_text, text_of
from raceproof.moves.request import key_text
from raceproof.outcome import Unknown
from raceproof.shown import shown_key
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.attempts", "redis.lua")
_PATIENCE = 100


class RedisAttempts:
    """The programs of attempts, with the scripts that they have rendered so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._scripts: dict[tuple[Any, ...], str] = {}

    def start(self, asked: StartRequest) -> Program[StartAnswer]:
        """Make a row the owner's active attempt; end, keep or respect the one that is open."""
        attempts = asked.attempts
        pointer, owned = self._keys_of(asked)
        wanted = key_text(asked.parts)
        given = {"key": wanted}
        if attempts.lifecycle.history:
            given["by"] = asked.by or ""
        if asked.now is not None:
            given["given_now"] = f"{asked.now.timestamp():.6f}"
        columns = _columns(asked)
        keys = [pointer, owned, *self._row(attempts, wanted)]
        try:
            for _ in range(_PATIENCE):
                named = keys
                if self._moves.cluster:
                    (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
                    old = given["given_pointer"] = text_of(found) or ""
                    named = [*keys, *self._row(attempts, old or wanted)]
                made = self._script(attempts, asked.when_open, tuple(given), tuple(columns))
                told = yield Statement("attempt.start", made, [*given.values(), *columns.values()], named)
                if not isinstance(told, list):
                    ended = text_of(told)
                    superseded = key_of_member(attempts.lifecycle, ended, asked.tenant) if ended else None
                    return Started(asked.key, attempts, asked.owner, superseded)
                word, *more = map(text_of, told)
                if word != "again":
                    return _not_begun(asked, word, more)
        except AcknowledgementLost as error:
            return Unknown(asked.key, attempts, None, error.__cause__ or error)
        raise CallError(f"{attempts} of {shown_key(asked.owner)}: others kept starting attempts; ask again")

    def current(self, asked: StartRequest) -> Program[dict[str, Any] | None]:
        """The owner's active attempt: the one that the pointer names, and names still if it turns out to have ended."""
        pointer, _ = self._keys_of(asked)
        (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
        for _ in range(_PATIENCE):
            if found is None:
                return None
            row = yield from self._moves.read(
                asked.attempts.lifecycle, parts_of_text(asked.attempts.lifecycle, text_of(found))
            )
            if row is not None and (yield from self._is_active(asked, row)):
                return row
            before = found
            (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
            if found == before:
                return None
        return None

    def _is_active(self, asked: StartRequest, row: Mapping[str, Any]) -> Program[bool]:
        """Whether an attempt is open and its time is not over."""
        attempts = asked.attempts
        if row.get(attempts.lifecycle.column) not in attempts.open:
            return False
        began = row.get(attempts.started or "")
        if attempts.ttl is None or not began:
            return True
        (clock,) = yield Statement("time", "TIME")
        now = asked.now.timestamp() if asked.now else float(clock[0]) + float(clock[1]) / 1e6
        return float(began) + attempts.ttl > now

    def expired(self, asked: StartRequest, limit: int, of_owner: bool = False) -> Program[Rows]:
        """None: a key of Redis ends by itself."""
        return []
        yield

    def _keys_of(self, asked: StartRequest) -> tuple[str, str]:
        """The pointer of the owner and the set of its attempts, each of its own tenant (P9)."""
        attempts = asked.attempts
        return self._keys(attempts, attempts.owner_text(asked.owner, asked.tenant))

    def _keys(self, attempts: Attempts, owner: str) -> tuple[str, str]:
        spec = attempts.lifecycle
        if self._moves.cluster and spec.tenant != attempts.owner:
            raise CallError(
                f"{attempts}: on a cluster the owner must be the tenant of {spec}, so that its keys are in one slot"
            )
        # the owner is the tenant: its hash tag is that of its rows, in which a key of several columns is escaped
        tagged = f"{{{key_text((owner, ''))[:-1]}}}" if self._moves.cluster else owner
        active, owned = (
            attempts.active_key or f"{spec.table}/active",
            attempts.owned_key or f"{spec.table}/owned",
        )
        return f"{active}:{tagged}", f"{owned}:{tagged}"

    def _row(self, attempts: Attempts, text: str) -> tuple[str, str]:
        spec = attempts.lifecycle
        return self._moves.row_of_text(spec, text), self._moves.history_of_text(spec, text)

    def _script(
        self, attempts: Attempts, when_open: WhenOpen, given: tuple[str, ...], columns: tuple[str, ...]
    ) -> str:
        kind = (attempts, when_open, given, columns)
        made = self._scripts.get(kind)
        if made is None:
            made = self._scripts[kind] = script_of_attempts(*kind, self._moves.cluster)
        return made


def _not_begun(asked: StartRequest, word: str, told: Sequence[Any]) -> StartAnswer:
    attempts, spec = asked.attempts, asked.attempts.lifecycle
    match word:
        case "replayed":
            return Started(asked.key, attempts, asked.owner, None, replayed=True)
        case "kept":
            return Kept(key_of_member(spec, told[1], asked.tenant), attempts, asked.owner, told[0])
    active = key_of_member(spec, told[1], asked.tenant) if len(told) > 1 else None
    return Rejected(asked.key, attempts, asked.owner, told[0], active)


def _columns(asked: StartRequest) -> dict[str, str]:
    """The fields of the new row and their values; what the row is and whose it is comes last, and so counts."""
    spec = asked.attempts.lifecycle
    columns = {name: field_text(name, value) for name, value in asked.columns.items() if value is not None}
    for name, part in zip(spec.key_columns, asked.parts, strict=True):
        columns[name] = str(part)
    columns[asked.attempts.owner] = str(asked.owner)
    return columns


_WORDS = {"keep": "kept", "reject": "rejected"}


def script_of_attempts(
    attempts: Attempts,
    when_open: WhenOpen,
    given: Sequence[str],
    columns: Sequence[str],
    cluster: bool = False,
) -> str:
    """`redis.lua` for this declaration, for callers who give these values and columns."""
    spec, move = attempts.lifecycle, attempts.supersede
    ends = spec.expires
    moment = Expression("moment")
    places = list(arguments((*given, *(f"column {name}" for name in columns))).values())
    words = dict(zip(given, places, strict=False))
    named = zip(columns, places[len(given) :], strict=True)
    new: list[Any] = [part for field in named for part in field]
    new += [spec.column, spec.initial[0]]
    if spec.revision:
        new += [spec.revision, "0"]
    if attempts.started:
        new += [attempts.started, moment]
    ended: list[Any] = [spec.column, move.target]
    ended += [part for stamp in move.stamp for part in (stamp, moment)]
    if attempts.link:
        ended += [attempts.link, words["key"]]
    looked_at = [spec.column, attempts.started] if attempts.started else [spec.column]
    claims = EndedClaims.of(move.ends, looked_at, (*move.stamp, *((attempts.link,) if attempts.link else ())))
    constants = {
        **words,
        "new_fields": in_turn(new),
        "ended_fields": in_turn(ended),
        "looked_at": in_turn(looked_at),
        "ended_columns": in_turn(claims.columns),
        "ended_markers": claims.markers,
        "ended_fences": in_turn(claims.fences),
        "lifecycle": spec.name,
        "open": dict.fromkeys(attempts.open, True),
        "initial": spec.initial[0],
        "first_revision": "0" if spec.revision else "",
        "revision_column": spec.revision,
        "supersede": move.name,
        "superseded": move.target,
        "word_of_open": _WORDS.get(when_open),
        "ttl": attempts.ttl,
        "row_prefix": f"{spec.table}:",
        "stream_prefix": f"{spec.table}/history:",
    }
    if ends:
        kept = max(ends.open, ends.ended)
        for name, seconds in (("open_ttl", ends.open), ("ended_ttl", ends.ended), ("kept_ttl", kept)):
            constants[name] = math.ceil(seconds * 1000)
    wanted = {
        "history": spec.history,
        "expires": ends,
        "revision": spec.revision,
        "ttl": attempts.ttl,
        "supersedes": when_open == "supersede",
        "cluster": cluster,
        "ends_columns": claims.columns,
        "ends_marker": claims.markers,
        "fences": claims.fences,
        "counts": claims.fences,
        "grows": claims.fences,
        **dict.fromkeys(given, True),
    }
    return script((COUNTING, SCRIPT), constants, [name for name, value in wanted.items() if value])
