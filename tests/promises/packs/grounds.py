"""Where packs run: SQLite in memory, or a server that is started for it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from raceproof.testing.explorer.ground import Ground
from raceproof.testing.explorer.on_sqlite import SqliteGround
from raceproof.testing.servers import postgres, valkey
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
                yield lambda pack: _on_postgres(server if isinstance(server, str) else server.database(), pack)
        case "redis":
            with valkey() if not address else _there(address) as server:
                yield lambda pack: _on_redis(server if isinstance(server, str) else server.url, pack)


@contextmanager
def _there(address: str) -> Iterator[str]:
    yield address


def _on_postgres(url: str, pack: Pack) -> Ground:
    from raceproof.testing.explorer.on_postgres import PostgresGround

    return PostgresGround(url, spans(pack))


def _on_redis(url: str, pack: Pack) -> Ground:
    from raceproof.testing.explorer.on_redis import RedisGround

    return RedisGround(url, spans(pack))


def spans(pack: Pack) -> set[float]:
    """The spans of time that the pack's statements reckon with, which only SQLite tells."""
    sqlite = SqliteGround()
    pack.explore(replace(pack.limits, deviations=1, seconds=2.0), sqlite)
    return sqlite.durations
