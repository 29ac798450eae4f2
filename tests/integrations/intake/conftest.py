"""Each server that an endpoint runs behind, and a receiver that remembers."""

import pytest

from tests.integrations.intake.fix_served import SERVERS, Inbox, Serve


@pytest.fixture(params=SERVERS)
def serve(request: pytest.FixtureRequest) -> Serve:
    """aiohttp, and uvicorn for ASGI: `async with serve(endpoint) as port`."""
    return SERVERS[request.param]


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()
