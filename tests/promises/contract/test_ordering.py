"""The order of claims, on the connections to stores that sort."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.ordering import *
from tests.promises.contract.grounds import KINDS, asked_ground


@pytest.fixture(params=[kind for kind in KINDS if not kind.startswith("redis")])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """A store that sorts."""
    async with asked_ground(request, tmp_path) as found:
        yield found
