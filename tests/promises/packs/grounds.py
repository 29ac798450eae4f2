"""Where packs run: SQLite in memory, or a server that is started for it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from raceproof.testing import postgres, valkey
from raceproof.testing.explorer import world_of
from raceproof.testing.explorer.ground import Ground
from raceproof.testing.explorer.on_sqlite import SqliteGround
from tests.promises.packs.conformance import durations
from tests.promises.packs.on_postgres import PostgresGround
from tests.promises.packs.on_redis import RedisGround
from tests.promises.packs.pack import GroundName, Pack

Opened = Callable[[Pack], Ground]


@contextmanager
def opened(name: GroundName) -> Iterator[Opened]:
    """A way to a fresh ground for each pack; a server at RACEPROOF_EXPLORE_POSTGRES or _REDIS is taken for a new one."""
    address = os.environ.get(f"RACEPROOF_EXPLORE_{name.upper()}")
    match name:
        case "sqlite":
            yield lambda pack: SqliteGround()
        case "postgres":
            with postgres() if not address else _there(address) as server:
                yield lambda pack: PostgresGround(
                    server if isinstance(server, str) else server.database(), _spans(pack)
                )
        case "redis":
            with valkey() if not address else _there(address) as server:
                yield lambda pack: RedisGround(server if isinstance(server, str) else server.url, _spans(pack))


@contextmanager
def _there(address: str) -> Iterator[str]:
    yield address


def _spans(pack: Pack) -> set[float]:
    """The spans of time that the pack's statements reckon with, which only SQLite tells."""
    return durations(world_of(pack.scenario), replace(pack.limits, seconds=2.0))
