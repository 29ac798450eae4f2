"""The stores that workers run on: those that `connect(url)` opens."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raceproof.testing.contract.grounds import Ground
from tests.promises.contract.grounds import asked_ground
from tests.promises.crash.conftest import outside as outside
from tests.promises.crash.conftest import place as place


@pytest.fixture(params=["sqlite connect async", "postgres connect async", "redis connect async", "asyncpg pool"])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    async with asked_ground(request, tmp_path) as found:
        yield found
