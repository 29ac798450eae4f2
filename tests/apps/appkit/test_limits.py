"""What comes in: known hosts, whole bodies in time, and JSON that means the same to every reader."""

import asyncio
from collections.abc import MutableMapping
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, FastAPI
from prometheus_client import CollectorRegistry

from appkit.hosts import Hosts
from appkit.loops import Loops
from appkit.web import Limits, number, web_app
from tests.apps.walking import BAD_JSON, JSON_KINDS


def made() -> FastAPI:
    app = web_app("toy", Loops(), CollectorRegistry(), ["toy.example.com"])
    app.state.stop_counting()

    @app.post("/echo")
    async def echo(told: Annotated[Any, Body()]) -> Any:
        return told

    return app


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST.:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("10.1.2.3", 200),
        ("toy.example.com", 200),
        ("Toy.Example.Com:443", 200),
        ("evil.com", 421),
        ("localhost.evil.com", 421),
        ("toy.example.com.evil.com", 421),
        ("evil.com:80@localhost", 421),
        ("localhost:80:80", 421),
        ("127.0.0.1.nip.io", 421),
        ("0x7f.1", 421),
        ("[", 421),
        ("", 421),
        ("ev il", 421),
    ],
)
async def test_only_names_of_the_application_and_addresses_are_answered(host: str, status: int) -> None:
    """An address cannot be led elsewhere by DNS, a name can."""
    transport = httpx.ASGITransport(made())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/metrics", headers={"host": host})
    assert answer.status_code == status
    assert "content-security-policy" in answer.headers
    if status == 421:
        assert "TOY_HOSTS" in answer.json()["error"]


def test_a_second_host_header_is_looked_at_too() -> None:
    """Whichever of them a proxy has believed."""
    hosts = Hosts("toy")
    assert hosts.refusal([b"localhost", b"evil.com"]) is not None
    assert hosts.refusal([]) is not None
    assert hosts.refusal([b"localhost"]) is None


@pytest.mark.parametrize("kind", JSON_KINDS)
@pytest.mark.parametrize("body", BAD_JSON)
async def test_every_spelling_of_a_json_type_is_read_strictly(kind: str | None, body: bytes) -> None:
    """FastAPI reads most of them as JSON, and Python's reader takes NaN and the last of two keys."""
    transport = httpx.ASGITransport(made(), raise_app_exceptions=False)
    headers = {} if kind is None else {"content-type": kind}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/echo", content=body, headers=headers)
    assert answer.status_code == 400
    assert "strict JSON" in answer.json()["error"]


async def test_of_two_content_types_none_hides_the_other() -> None:
    """Starlette believes the first."""
    transport = httpx.ASGITransport(made(), raise_app_exceptions=False)
    for first, second in (("application/json", "application/x-www-form-urlencoded"),) * 2:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = [("content-type", first), ("content-type", second)]
            answer = await client.post("/echo", content=b'{"a": NaN}', headers=headers)
        assert answer.status_code == 400


async def asked(limits: Limits, *messages: MutableMapping[str, Any]) -> list[MutableMapping[str, Any]]:
    """What a POST in these pieces is answered; after the last, nothing comes."""
    waiting = list(messages)
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "headers": [(b"host", b"localhost")],
        "path": "/",
        "query_string": b"",
    }
    await limits(scope, receive, send)
    return sent


async def _never(*_: Any) -> None:
    raise AssertionError("half a body is not a request")


async def test_a_body_that_does_not_come_to_its_end_is_given_up() -> None:
    """One byte and then nothing, for ever."""
    limits = Limits(_never, Hosts("toy"), read_seconds=0.05)
    sent = await asked(limits, {"type": "http.request", "body": b"{", "more_body": True})
    assert sent[0]["status"] == 408


async def test_half_a_body_is_not_worked_on() -> None:
    """The client has gone in the middle of it."""
    limits = Limits(_never, Hosts("toy"))
    half = {"type": "http.request", "body": b"[1", "more_body": True}
    assert await asked(limits, half, {"type": "http.disconnect"}) == []


@pytest.mark.parametrize("text", ["²", "٣", "", "-1", "1e3", "9" * 19, "9" * 5000, " 1"])
def test_a_number_is_made_of_ascii_digits_that_fit(text: str) -> None:
    """`"²".isdigit()` is true, and `int` raises."""
    assert number(text, -7) == -7
    assert number("123456789012345678") == 123456789012345678
