"""The databases that applications run on in the tests."""

from pathlib import Path

import pytest


def empty_database(request: pytest.FixtureRequest, folder: Path) -> str:
    """One of the kind that the parameter of a fixture names: sqlite or postgres."""
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'app.db'}"
    return str(request.getfixturevalue("empty_postgres"))
