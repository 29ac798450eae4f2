"""The contract runs once on every ground."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raceproof.testing.contract.grounds import Ground
from tests.promises.contract.grounds import KINDS, asked_ground


@pytest.fixture(params=KINDS, ids=lambda kind: kind.replace(" ", "-"))
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """One store, empty but for what others left under names of their own."""
    async with asked_ground(request, tmp_path) as found:
        yield found
