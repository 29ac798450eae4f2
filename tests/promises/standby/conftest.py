"""A primary and a synchronous standby: one pair for all tests that leave it whole, one for a test that breaks it."""

from collections.abc import Iterator

import pytest

from raceproof import Store, bind
from raceproof.testing.contract.grounds import Caller, PostgresGround
from tests.promises.standby.fix_standby import Pair


@pytest.fixture(scope="session")
def _pair() -> Iterator[Pair]:
    with Pair() as pair:
        yield pair


@pytest.fixture
def pair(_pair: Pair) -> Iterator[Pair]:
    """A pair that others use as well: leave it whole."""
    yield _pair
    _pair.link.release()


@pytest.fixture
def mortal_pair() -> Iterator[Pair]:
    """A pair to fail over."""
    with Pair() as pair:
        yield pair


@pytest.fixture
def ground(pair: Pair) -> PostgresGround:
    """Tables of the pair, made and looked at without the library."""
    store: Store = bind(pair.beside)
    return PostgresGround(Caller(store), pair.run)
