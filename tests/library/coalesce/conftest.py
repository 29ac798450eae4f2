"""`connect(url)` in async code, on each store: calls at once share statements."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raceproof.testing.contract.grounds import Ground, PostgresGround
from tests.promises.contract.grounds import asked_ground, open_ground

KINDS = ("postgres connect async", "sqlite connect async", "redis connect async")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.partition(" ")[0])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """A store that was connected to by its URL."""
    async with asked_ground(request, tmp_path) as found:
        yield found


@pytest.fixture
async def on_postgres(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PostgresGround]:
    """The same on PostgreSQL alone."""
    server = request.getfixturevalue("postgres_server")
    async with open_ground(KINDS[0], lambda: server, lambda: None, tmp_path) as found:  # type: ignore[arg-type, return-value]
        assert isinstance(found, PostgresGround)
        yield found
