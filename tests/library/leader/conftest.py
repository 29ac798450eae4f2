"""Leaders are tried on each of the three stores."""

from pathlib import Path

import pytest

from tests.promises.race.places import Place, open_place


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store that all processes reach."""
    return open_place(request.param, request, tmp_path)
