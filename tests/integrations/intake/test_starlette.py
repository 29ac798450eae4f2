"""An endpoint inside of Starlette and FastAPI, over real sockets: a sender of webhooks follows no redirect."""

import hmac
import json
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from fastapi import FastAPI, Request, Response
from starlette.applications import Starlette
from starlette.routing import Route, Router

from raceproof import Inbox as EventInbox
from raceproof import connect
from raceproof.webhooks import Endpoint, Hmac, Secret, TelegramSecret, Unsigned
from raceproof.webhooks.asgi import asgi_app
from tests.ddl import script
from tests.integrations.intake.fix_served import Inbox, uvicorn_with
from tests.integrations.intake.test_signatures import TELEGRAM, TELEGRAM_SECRET

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
STRIPE_SECRET = Secret("whsec_0123456789abcdef")
PATHS = ("/webhooks/stripe", "/webhooks/stripe/")


async def posted(port: int, path: str, body: bytes, headers: dict[str, str], method: str = "POST") -> tuple[int, str]:
    """The status, and the location of a redirect."""
    async with (
        ClientSession(f"http://127.0.0.1:{port}") as session,
        session.request(method, path, data=body, headers=headers, allow_redirects=False) as response,
    ):
        return response.status, response.headers.get("location", "")


def stripe_headers(body: bytes) -> dict[str, str]:
    now = int(time.time())
    digest = hmac.digest(STRIPE_SECRET.reveal_bytes(), b"%d.%b" % (now, body), "sha256").hex()
    return {"Stripe-Signature": f"t={now},v1={digest}", "Content-Type": "application/json"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script(EventInbox(), dialect="sqlite"))
    return path


def events(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [one for (one,) in connection.execute("SELECT event_id FROM raceproof_inbox ORDER BY event_id")]


def documented(database_url: str) -> Any:
    """The application of docs/examples/webhooks.py."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return import_module("webhooks").shop(database_url, STRIPE_SECRET)


def on_fastapi(database_url: str) -> Any:
    """The same on FastAPI."""
    inbox = EventInbox()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with connect(database_url) as db:
            app.state.receive = db.receiver(inbox)
            yield

    stripe = Endpoint(
        "stripe",
        Hmac(STRIPE_SECRET, header="Stripe-Signature", signature_field="v1", timestamp_field="t"),
        lambda arrival: app.state.receive(arrival),
        event_id=lambda event: event["id"],
    )
    app = FastAPI(lifespan=lifespan, routes=[Route(path, asgi_app(stripe)) for path in PATHS])
    return app


@pytest.mark.parametrize("made", [documented, on_fastapi])
async def test_a_webhook_is_answered_with_200_with_and_without_a_slash_at_the_end(
    made: Callable[[str], Any], database: Path
) -> None:
    """A mount would redirect one of them with 307, and no provider follows that."""
    async with uvicorn_with(made(f"sqlite:///{database}")) as port:
        for place, path in enumerate(PATHS):
            body = json.dumps({"id": f"evt_{place}"}).encode()
            assert await posted(port, path, body, stripe_headers(body)) == (200, "")
            assert await posted(port, path, body, stripe_headers(b"other")) == (401, "")
            assert await posted(port, path, b"", {}, "GET") == (405, "")
    assert events(database) == ["evt_0", "evt_1"]


async def test_the_documented_application_can_be_started_again(database: Path) -> None:
    """Its store is closed with the first lifespan, and another is opened with the second."""
    app = documented(f"sqlite:///{database}")
    for number in range(2):
        async with uvicorn_with(app) as port:
            body = json.dumps({"id": f"evt_{number}"}).encode()
            assert await posted(port, PATHS[0], body, stripe_headers(body)) == (200, "")
    assert events(database) == ["evt_0", "evt_1"]


async def test_an_endpoint_is_a_route_of_a_router_in_a_mount(inbox: Inbox) -> None:
    """A group of webhooks under one prefix."""
    way = Endpoint("s", Unsigned(), inbox.receive)
    app = Starlette()
    app.mount("/webhooks", Router(routes=[Route("/stripe", asgi_app(way))]))
    async with uvicorn_with(app) as port:
        assert await posted(port, "/webhooks/stripe", b"{}", {}) == (200, "")
    assert len(inbox.arrivals) == 1


async def test_an_endpoint_can_still_be_mounted_where_the_slash_is_part_of_the_address(inbox: Inbox) -> None:
    """A provider that was given the address with a slash gets its 200 there."""
    app = Starlette()
    app.mount("/events", asgi_app(Endpoint("s", Unsigned(), inbox.receive)))
    async with uvicorn_with(app) as port:
        assert await posted(port, "/events/", b"{}", {}) == (200, "")


async def test_an_endpoint_answers_inside_a_handler_of_fastapi(inbox: Inbox) -> None:
    """With the headers and the stream of its request as they are."""
    telegram = Endpoint("telegram", TelegramSecret(TELEGRAM_SECRET), inbox.receive)
    app = FastAPI()

    @app.post("/telegram")
    async def receive(request: Request) -> Response:
        reply = await telegram.answer(request.headers, request.stream())
        return Response(reply.body, reply.status, dict(reply.headers))

    async with uvicorn_with(app) as port:
        assert await posted(port, "/telegram", b"{}", TELEGRAM) == (200, "")
        assert await posted(port, "/telegram", b"{}", {}) == (401, "")
    assert [arrival.body for arrival in inbox.arrivals] == [b"{}"]
