"""The stores that workers run on: those that `connect(url)` opens."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.grounds import Ground, open_ground


@pytest.fixture(
    params=["sqlite connect async", "postgres connect async", "redis connect async", "asyncpg pool"]
)
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    async with open_ground(
        request.param,
        lambda: request.getfixturevalue("postgres_server"),
        lambda: request.getfixturevalue("valkey_server"),
        tmp_path,
    ) as found:
        yield found
