"""A store seen from beside the library, on a connection that is closed before any process is forked, or opened after it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import psycopg
import redis

from raceproof.declare import Spec
from raceproof.kernel.quoting import identifier, qualified
from raceproof.testing.contract.grounds import Caller, Ground, PostgresGround, RedisGround, SqlGround, SqliteGround
from tests.promises.race.places import Place

_NOBODY = cast(Caller, None)


@contextmanager
def beside(place: Place) -> Iterator[Ground]:
    """Make tables, put rows and look at them, on a connection of the calling process."""
    if place.url.startswith("sqlite"):
        path = place.url.removeprefix("sqlite:///")
        own = sqlite3.connect(path, isolation_level=None, timeout=60)
        own.execute("PRAGMA journal_mode = WAL")
        try:
            yield SqliteGround(_NOBODY, lambda text, params=(): own.execute(text, params).fetchall())
        finally:
            own.close()
    elif place.url.startswith("redis"):
        with redis.Redis.from_url(place.url, decode_responses=True) as client:
            yield RedisGround(_NOBODY, client)
    else:
        with psycopg.connect(place.url, autocommit=True) as admin:

            def run(text: str, params: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
                cursor = admin.execute(text.encode(), params)
                return cursor.fetchall() if cursor.description else []

            yield PostgresGround(_NOBODY, run)


def write(ground: Ground, spec: Spec[Any], key: str, **columns: Any) -> None:
    """What people write: an update by the key alone."""
    if isinstance(ground, RedisGround):
        ground._client.hset(f"{spec.table}:{key}", mapping={name: str(value) for name, value in columns.items()})
        return
    assert isinstance(ground, SqlGround)
    sets = ", ".join(f"{identifier(name)} = {ground.mark}" for name in columns)
    where = f"{identifier(spec.key[0])} = {ground.mark}"
    ground.run(f"UPDATE {qualified(spec.table)} SET {sets} WHERE {where}", (*columns.values(), key))


def keys_at(ground: Ground, spec: Spec[Any], status: str) -> list[str]:
    """The keys of the rows at a status."""
    if isinstance(ground, RedisGround):
        found = [str(key) for key in ground._client.scan_iter(f"{spec.table}:*", count=1000)]
        return [k.split(":", 1)[1] for k in found if ground._client.hget(k, spec.column) == status]
    assert isinstance(ground, SqlGround)
    text = (
        f"SELECT {identifier(spec.key[0])} FROM {qualified(spec.table)} WHERE {identifier(spec.column)} = {ground.mark}"
    )
    return [str(row[0]) for row in ground.run(text, (status,))]
