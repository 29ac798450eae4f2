"""An empty database for one run of a queue, on the servers of the world."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import redis

from bench.world import World

_OURS_ON_VALKEY = 1
"""The number of the database that is emptied; the other comparisons use 0."""


class Store(StrEnum):
    POSTGRES = "PostgreSQL"
    SQLITE = "SQLite"
    REDIS = "Redis"


@contextmanager
def fresh(world: World, store: Store) -> Iterator[str]:
    """Its URL, or its path if it is a file; gone at the end."""
    match store:
        case Store.POSTGRES:
            url = world.postgres.database()
            try:
                yield url
            finally:
                world.postgres.psql(f"DROP DATABASE {urlsplit(url).path.removeprefix('/')} WITH (FORCE)")
        case Store.SQLITE:
            with TemporaryDirectory(dir=world.folder) as folder:
                yield str(Path(folder, "queue.db"))
        case Store.REDIS:
            url = world.valkey.url.removesuffix("/0") + f"/{_OURS_ON_VALKEY}"
            with redis.Redis.from_url(url) as client:
                client.flushdb()
            yield url
