"""Exploring on Redis or Valkey, step by step: one script at a time on one connection, with a clock of our own.

A script asks a hash for the time instead of the server, and is otherwise the one of production. Keys are put back from
dumps of what they were. What the server itself forgets after a TTL goes by its own clock, which hardly moves in a run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import redis

from raceproof.drivers.redis import RedisClient
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_text
from raceproof.kernel.redis import RedisDialect
from raceproof.kernel.statement import Rows, Statement
from raceproof.programs import Programs
from raceproof.schema import Dialect
from raceproof.testing.explorer.expiries import Spans
from raceproof.testing.explorer.ground import Tables, frozen
from raceproof.testing.explorer.virtual import EPOCH

_CLOCK = "explored:clock"
_REAL = "redis.call('TIME')"
_OURS = f"redis.call('HMGET', '{_CLOCK}', 'seconds', 'micros')"
_LOOK = """
local reads = {
  hash = function(key) return redis.call('HGETALL', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  stream = function(key) return redis.call('XRANGE', key, '-', '+') end,
  string = function(key) return {redis.call('GET', key)} end,
}
local found = {}
for place, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key)['ok']
  found[place] = {key, kind, reads[kind](key)}
end
return found
"""


class RedisGround:
    """Database 0 of a server that nobody else uses."""

    dialect = "redis"

    def __init__(self, url: str, durations: Iterable[float] = ()) -> None:
        self._client = redis.Redis.from_url(url)
        self._now = (0, 0)
        self._look = self._client.register_script(_LOOK)
        self._driver = RedisClient(self._client)
        self._client.flushdb()
        self._spans = Spans(durations)
        self._writes = 0
        self._kept: dict[Any, Any] = {}
        self.programs = Programs(RedisDialect())
        self.set_clock(0.0)

    # the clock

    def set_clock(self, clock: float) -> None:
        self._now = seconds, micros = divmod(round((EPOCH + clock) * 1_000_000), 1_000_000)
        self._client.hset(_CLOCK, mapping={"seconds": seconds, "micros": micros})
        self._spans.set_clock(clock)

    def next_expiry(self) -> float | None:
        return self._spans.next()

    def expiries(self) -> object:
        return self._spans.state()

    # statements

    def learns(self, statement: Statement) -> bool:
        return False

    def execute(self, statement: Statement) -> Rows:
        self._writes += 1
        self._spans.ran()
        if statement.text == "TIME":
            return [self._now]
        if statement.keys:
            statement = statement._replace(text=statement.text.replace(_REAL, _OURS))
        return self._driver.execute(statement)

    def sql(self, text: str, params: Sequence[Any]) -> Rows:
        raise CallError("Redis knows no SQL; explore this scenario on SQLite or PostgreSQL")

    def observed(self, answer: Any) -> object:
        return frozen(answer)

    def begin(self) -> None:
        raise CallError("Redis has no transactions of the caller's; explore this scenario on SQLite or PostgreSQL")

    def commit(self) -> None:
        """Nothing was begun."""

    def rollback(self) -> None:
        """Nothing was begun."""

    # the run

    def keep(self) -> None:
        for key in self._client.keys("*"):
            if key != _CLOCK.encode():
                self._kept[key] = self._client.dump(key)

    def reset(self) -> None:
        self._writes += 1
        pipeline = self._client.pipeline(transaction=False)
        pipeline.flushdb()
        for key, value in self._kept.items():
            pipeline.restore(key, 0, value)
        pipeline.execute()
        self._spans.clear()
        self.set_clock(0.0)

    def aside(self, look: Callable[[], object]) -> None:
        """Never."""

    def version(self) -> object:
        return self._writes

    def state(self) -> object:
        return repr(self.tables())  # not dumps: a stream's ids are the server's own time

    def tables(self) -> Tables:
        """Hashes by what stands before the colon in their key; other keys have a table of their own."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        read: Any = self._look()
        for key, kind, values in sorted((_plain(key), _plain(kind), values) for key, kind, values in read):
            if key != _CLOCK:
                found.setdefault(key.partition(":")[0], []).append(_row(key, kind, values))
        return found

    # a scenario's beginning

    def script(self, text: str) -> None:
        raise CallError("Redis knows no SQL; use world.table and world.row, or explore on SQLite or PostgreSQL")

    def create(self, table: str, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        """A hash needs no table."""

    def ddl(self, texts: Mapping[Dialect, str]) -> None:
        """Nor does anything else."""

    def insert(self, table: str, keys: Sequence[str], values: Mapping[str, Any]) -> None:
        fields: dict[Any, Any] = {name: str(value) for name, value in values.items() if value is not None}
        self._client.hset(f"{table}:{key_text(tuple(values[key] for key in keys))}", mapping=fields)

    def close(self) -> None:
        self._client.close()


def _row(key: str, kind: str, values: list[Any]) -> Mapping[str, Any]:
    match kind:
        case "hash":
            texts = list(map(_plain, values))
            return dict(zip(texts[::2], texts[1::2], strict=True))
        case "stream":
            return {"key": key, "entries": [list(map(_plain, entry)) for _, entry in values]}
        case "set":
            return {"key": key, kind: sorted(map(_plain, values))}
        case _:
            return {"key": key, kind: list(map(_plain, values))}


def _plain(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
