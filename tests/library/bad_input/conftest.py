"""Bad input reaches every kind of store that the contract knows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raceproof.testing.contract.grounds import Ground
from tests.promises.contract.grounds import KINDS, asked_ground


@pytest.fixture(params=KINDS, ids=lambda kind: kind.replace(" ", "-"))
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """One store of each kind."""
    async with asked_ground(request, tmp_path) as found:
        yield found


@pytest.fixture(params=["sqlite3", "redis connect async"], ids=lambda kind: kind.replace(" ", "-"))
async def any_ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """A sync and an async store, for what is refused before a store is asked."""
    async with asked_ground(request, tmp_path) as found:
        yield found
