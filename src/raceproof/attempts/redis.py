"""Attempts on Redis and Valkey: a declaration has one script, and each start runs it once; see `redis.lua`.

On a cluster all keys of one owner must be in one slot: declare the owner as the lifecycle's `tenant`, which is the hash tag
there. And all must be in KEYS: so the pointer to the open attempt is read before, and again if it has changed.
"""

import math
from collections.abc import Sequence
from typing import Any

from raceproof.attempts.answers import AlreadyActive, Rejected, StartAnswer, Started
from raceproof.attempts.declared import Attempts
from raceproof.attempts.reading import PATIENCE, RedisAttemptReading
from raceproof.attempts.request import StartRequest, WhenOpen
from raceproof.claims.redis_index import SHARED_FILES, EndedClaims
from raceproof.kernel.answers import Unknown
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_text
from raceproof.kernel.lua import Expression, arguments, in_turn, script
from raceproof.kernel.quoting import lua_literal
from raceproof.kernel.redis import Scripts, field_text, key_of_member, moved_fields, row_constants, seconds_of, text_of
from raceproof.kernel.shown import shown_key
from raceproof.kernel.statement import AcknowledgementLost, Program, Statement

FILES = (*SHARED_FILES, ("raceproof.attempts", "redis.lua"))


class RedisAttempts(RedisAttemptReading):
    """The programs of attempts."""

    def start(self, asked: StartRequest) -> Program[StartAnswer]:
        """Make a row the owner's active attempt; end, keep or respect the one that is open."""
        attempts = asked.attempts
        pointer, owned = self.keys_of(asked)
        wanted = key_text(asked.parts)
        given = {"key": wanted}
        if attempts.lifecycle.history:
            given["by"] = asked.by or ""
        if asked.now is not None:
            given["given_now"] = seconds_of(asked.now)
        columns = _columns(asked)
        keys = [pointer, owned, *self._row(attempts, wanted)]
        try:
            for _ in range(PATIENCE):
                named = keys
                if self.dialect.cluster:
                    (found,) = yield Statement("attempt.pointer", "GET", (pointer,))
                    old = given["given_pointer"] = text_of(found) or ""
                    named = [*keys, *self._row(attempts, old or wanted)]
                made = _SCRIPTS.get(attempts, asked.when_open, tuple(given), tuple(columns), self.dialect.cluster)
                reply = yield Statement("attempt.start", made, [*given.values(), *columns.values()], named)
                if not isinstance(reply, list):
                    ended = text_of(reply)
                    superseded = key_of_member(attempts.lifecycle, ended, asked.tenant) if ended else None
                    return Started(asked.key, attempts, asked.owner, superseded)
                word, *more = map(text_of, reply)
                if word != "again":
                    return _not_begun(asked, word, more)
        except AcknowledgementLost as error:
            return Unknown(asked.key, attempts, None, error.__cause__ or error)
        raise CallError(f"{attempts} of {shown_key(asked.owner)}: others kept starting attempts; ask again")

    def _row(self, attempts: Attempts, text: str) -> tuple[str, str]:
        spec = attempts.lifecycle
        return self.dialect.row_of_text(spec, text), self.dialect.history_of_text(spec, text)


def _not_begun(asked: StartRequest, word: str, more: Sequence[Any]) -> StartAnswer:
    attempts, spec = asked.attempts, asked.attempts.lifecycle
    match word:
        case "replayed":
            return Started(asked.key, attempts, asked.owner, None, replayed=True)
        case "active":
            return AlreadyActive(key_of_member(spec, more[1], asked.tenant), attempts, asked.owner, more[0])
    active = key_of_member(spec, more[1], asked.tenant) if len(more) > 1 else None
    return Rejected(asked.key, attempts, asked.owner, more[0], active)


def _columns(asked: StartRequest) -> dict[str, str]:
    """The fields of the new row and their values; what the row is and whose it is comes last, and so counts."""
    spec = asked.attempts.lifecycle
    columns = {name: field_text(name, value) for name, value in asked.columns.items() if value is not None}
    for name, part in zip(spec.key_columns, asked.parts, strict=True):
        columns[name] = str(part)
    columns[asked.attempts.owner] = str(asked.owner)
    return columns


_WORDS = {"keep": "active", "reject": "rejected"}


def script_of_attempts(
    attempts: Attempts, when_open: WhenOpen, given: Sequence[str], columns: Sequence[str], cluster: bool = False
) -> str:
    """`redis.lua` for this declaration, for callers who give these values and columns."""
    spec, move = attempts.lifecycle, attempts.supersede
    ends = spec.expires
    places = list(arguments((*given, *(f"column {name}" for name in columns))).values())
    words = dict(zip(given, places, strict=False))
    named = zip(columns, places[len(given) :], strict=True)
    new: list[Any] = [part for field in named for part in field]
    new += [spec.column, spec.initial[0]]
    if spec.revision:
        new += [spec.revision, "0"]
    if attempts.started:
        new += [attempts.started, Expression("moment")]
    ended = [*moved_fields(move), *((attempts.link, words["key"]) if attempts.link else ())]
    looked_at = [spec.column, attempts.started] if attempts.started else [spec.column]
    claims = EndedClaims.of(move.ends, looked_at, (*move.stamp, *((attempts.link,) if attempts.link else ())))
    constants = {
        **dict.fromkeys(("given_now", "given_pointer", "by")),
        **words,
        **row_constants(spec),
        **claims.constants,
        "new_fields": in_turn(new),
        "ended_fields": in_turn(ended),
        "looked_at": in_turn(looked_at),
        "open": dict.fromkeys(attempts.open, True),
        "initial": spec.initial[0],
        "first_revision": "0" if spec.revision else "",
        "supersede": move.name,
        "superseded": move.target,
        "respects_open": when_open != "supersede",
        "when_open": _WORDS.get(when_open),
        "ttl": attempts.ttl,
        "cluster": cluster,
        "old_row": Expression("KEYS[5]" if cluster else f"{lua_literal(spec.table + ':')} .. pointed"),
        "old_history": Expression("KEYS[6]" if cluster else f"{lua_literal(spec.table + '/history:')} .. pointed"),
        "expires": bool(ends),
    }
    if ends:
        kept = max(ends.open, ends.ended)
        for name, seconds in (("open_ttl", ends.open), ("ended_ttl", ends.ended), ("kept_ttl", kept)):
            constants[name] = math.ceil(seconds * 1000)
    return script(FILES, "start", constants)


_SCRIPTS = Scripts(script_of_attempts)
