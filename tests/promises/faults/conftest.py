"""Each kind of store that can lose its server: `@pytest.mark.parametrize("faulty", KINDS, indirect=True)`."""

from collections.abc import AsyncIterator, Iterator

import pytest

from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import PostgresGround
from tests.fix_beside import postgres_beside
from tests.promises.faults.fix_cut import REDIS, Faulty, open_faulty


@pytest.fixture
async def faulty(request: pytest.FixtureRequest) -> AsyncIterator[Faulty]:
    """A store of the kind that the test asks for, behind a proxy."""
    server = request.getfixturevalue("valkey_server" if request.param in REDIS else "postgres_server")
    async with open_faulty(request.param, server.url) as found:
        yield found


@pytest.fixture
def ground(postgres_server: PostgresServer) -> Iterator[PostgresGround]:
    """PostgreSQL, seen from beside."""
    with postgres_beside(postgres_server.url) as found:
        yield found
