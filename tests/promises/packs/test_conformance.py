"""PostgreSQL and Valkey decide like SQLite: explored schedules are run on each, and every answer is compared.

That is what justifies exploring on SQLite. A call of the library is one step here, however many statements a store needs.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import pytest

from raceproof.testing import PostgresServer, valkey
from raceproof.testing.explorer import Limits, world_of
from raceproof.testing.explorer.action import Schedule
from raceproof.testing.explorer.ground import Ground
from raceproof.testing.explorer.on_sqlite import SqliteGround
from tests.promises.packs import PACKS, Pack
from tests.promises.packs.conformance import differences, durations, explored_schedules
from tests.promises.packs.on_postgres import PostgresGround
from tests.promises.packs.on_redis import RedisGround

OF_A_PACK = 21
"""Schedules of each pack, about 1,000 on each store; `make certificates` compares four times as many."""
LIMITS = Limits(deviations=2, seconds=0.6)

Opened = Callable[[set[float]], Ground]


@pytest.fixture(scope="module")
def on_postgres(postgres_server: PostgresServer) -> Opened:
    url = postgres_server.database()
    return lambda spans: PostgresGround(url, spans)


@pytest.fixture(scope="module")
def on_redis() -> Iterator[Opened]:
    with valkey() as server:
        yield lambda spans: RedisGround(server.url, spans)


def running_on(ground: str) -> list[Pack]:
    return [pack for pack in PACKS if ground in pack.grounds]


@pytest.mark.parametrize("pack", running_on("postgres"), ids=lambda pack: pack.name)
def test_postgres_answers_like_sqlite(pack: Pack, on_postgres: Opened) -> None:
    compare(pack, on_postgres)


@pytest.mark.parametrize("pack", running_on("redis"), ids=lambda pack: pack.name)
def test_valkey_answers_like_sqlite(pack: Pack, on_redis: Opened) -> None:
    compare(pack, on_redis)


def compare(pack: Pack, opened: Opened) -> None:
    world = world_of(pack.scenario)
    schedules, spans = tried(pack)
    assert len(schedules) >= 20, "too few schedules to compare"
    other = opened(spans)
    try:
        found = list(islice(differences(world, schedules, SqliteGround(), other, LIMITS), 3))
    finally:
        other.close()
    assert not found, "\n".join(map(str, found))


@cache
def tried(pack: Pack) -> tuple[list[Schedule], set[float]]:
    """What is tried on every store that the pack can run on, and the spans of time that it reckons with."""
    world = world_of(pack.scenario)
    return explored_schedules(world, LIMITS, OF_A_PACK), durations(world, LIMITS)


class StandingClock(SqliteGround):
    """A store whose clock stands still, so that no lease is ever over."""

    def set_clock(self, clock: float) -> None:
        super().set_clock(0.0)


def test_a_store_that_decides_otherwise_is_found_out() -> None:
    pack = next(pack for pack in PACKS if pack.name == "claimed-columns")
    world = world_of(pack.scenario)
    schedules = explored_schedules(world, LIMITS, 200)
    assert list(differences(world, schedules, SqliteGround(), StandingClock(), LIMITS))
