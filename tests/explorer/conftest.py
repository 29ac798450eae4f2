"""What explorations leave behind is collected after each test, in silence."""

import gc
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quietly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Abandoned coroutines complain when they are collected; test_virtual says so until the explorer sees to it itself."""
    with monkeypatch.context() as changed:
        changed.setattr(sys, "unraisablehook", lambda _: None)
        yield
        gc.collect()
