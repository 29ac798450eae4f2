"""Every crash happens on each of the three stores, and leaves its effects in an outside world that outlives it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from raceproof import Store, connect
from tests.promises.crash.actors import Outside
from tests.promises.race.places import Place, SqlitePlace, open_place


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store that all processes reach."""
    return open_place(request.param, request, tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    """Where effects go."""
    return Outside(tmp_path)


class EachTime:
    """A store that is opened for each call: a connection of SQLite must not be there when a process is forked."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            with connect(self._url) as store:
                return getattr(store, name)(*args, **options)

        return call


@pytest.fixture
def db(place: Place) -> Iterator[Store]:
    """The store as the survivor sees it. Forked processes open their own."""
    if isinstance(place, SqlitePlace):
        yield cast(Store, EachTime(place.url))
        return
    with connect(place.url) as store:
        yield store
