"""Bad input reaches every kind of store that the contract knows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.grounds import KINDS, Ground, open_ground


@pytest.fixture(params=KINDS, ids=lambda kind: kind.replace(" ", "-"))
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """One store of each kind."""
    async with open_ground(
        request.param,
        lambda: request.getfixturevalue("postgres_server"),
        lambda: request.getfixturevalue("valkey_server"),
        tmp_path,
    ) as found:
        yield found


@pytest.fixture(params=["sqlite3", "redis connect async"], ids=lambda kind: kind.replace(" ", "-"))
async def any_ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """A sync and an async store, for what is refused before a store is asked."""
    async with open_ground(
        request.param,
        lambda: request.getfixturevalue("postgres_server"),
        lambda: request.getfixturevalue("valkey_server"),
        tmp_path,
    ) as found:
        yield found
