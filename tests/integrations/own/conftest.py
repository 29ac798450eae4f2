"""A case for each kind of connection that a caller may have: `@pytest.mark.parametrize("case", KINDS, indirect=True)`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import PostgresGround
from tests.fix_beside import postgres_beside
from tests.integrations.own.fix_kinds import Case, open_case


@pytest.fixture
async def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Case]:
    """A caller's connection of the kind that the test asks for."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # the tests themselves run in an event loop
    async with open_case(request.param, lambda: request.getfixturevalue("postgres_server").url, tmp_path) as found:
        yield found


@pytest.fixture
def ground(postgres_server: PostgresServer) -> Iterator[PostgresGround]:
    """PostgreSQL, seen from beside."""
    with postgres_beside(postgres_server.url) as found:
        yield found
