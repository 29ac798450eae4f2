"""Walks every route of an application with what nobody should send, and sees that it never ends in a 5xx."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

HUGE = (
    "1" + "0" * 23,
    "-1" + "0" * 26,
    "²",
    "٣",
    "9" * 5000,
    "0x10",
    "1e3",
    "%00",
    "a\u0000b",
    "..%2f",
    "-1",
)
JSON_KINDS = (
    "application/json",
    "APPLICATION/JSON",
    "application/json; charset=utf-8",
    "application/x+json",
    "Application/Problem+JSON;v=1",
    "application/ json",
    "text/plain",
    None,
)
BAD_JSON = (
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": "\\u0000"}',
    b'{"a": 1, "a": 2}',
    b'{"a": "\\ud800"}',
    b'{"a":',
)
BAD_FORMS = (
    b"&".join(b"f%d=1" % n for n in range(40)),
    b"\xff\xfe=%zz",
    b"a=%00&by=%ff",
    b"verdict",
    b"=" * 100,
)
FORM = "application/x-www-form-urlencoded"


def routes(app: FastAPI | APIRouter) -> Iterator[tuple[str, APIRoute]]:
    """Each method of each route, also of included routers, which FastAPI keeps as they are."""
    for route in app.routes:
        if isinstance(route, APIRoute):
            for method in sorted(route.methods or ()):
                yield method, route
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from routes(included)


def path_of(route: APIRoute, known: Mapping[str, str], every: str | None = None) -> str:
    """The path with these values, or with the same value in all its places."""
    path = route.path_format
    for one in route.dependant.path_params:
        path = path.replace(f"{{{one.alias}}}", every if every is not None else known[one.alias])
    for name, value in known.items():
        path = path.replace(f"{{{name}}}", every if every is not None else value)
    return path


async def walk_hosts(app: FastAPI, known: Mapping[str, str]) -> int:
    """Every route, and everything mounted beside them, refuses a name of another; returns how many were asked."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    asked = 0
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        paths = [(method, path_of(route, known)) for method, route in routes(app)]
        for method, path in [*paths, ("GET", "/kit/kit.css"), ("GET", "/openapi.json"), ("GET", "/nothing")]:
            ours = {"origin": "http://evil.example", "sec-fetch-site": "same-origin"}
            answer = await client.request(method, path, headers=ours)
            assert answer.status_code in (401, 421), (method, path, answer.status_code)
            assert answer.status_code == 401 or "_HOSTS" in answer.text, answer.text
            asked += 1
    return asked


async def walk_oddities(
    app: FastAPI,
    known: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    live: tuple[str, ...] = (),
) -> int:
    """Odd numbers in paths, queries and headers, odd bodies of every type; `live` are streams without an end."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    asked = 0
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=dict(headers or {}), timeout=60
    ) as client:

        async def ask(method: str, path: str, **more: Any) -> int:
            nonlocal asked
            asked += 1
            answer = await client.request(method, path, **more)
            assert answer.status_code < 500, (method, path[:200], more, answer.status_code, answer.text[:500])
            return answer.status_code

        for method, route in routes(app):
            if route.path in live:
                continue
            path = path_of(route, known)
            names = [one.alias for one in route.dependant.query_params]
            for odd in HUGE:
                if "\0" not in odd:
                    await ask(method, path_of(route, known, odd), json={} if method == "POST" else None)
                for name in names:
                    await ask(method, path, params={name: odd, "once": "true"})
                if odd.isascii() and "\0" not in odd:
                    await ask(method, path, params={"once": "true"}, headers={"last-event-id": odd})
            await ask(method, path, params={"once": "true"}, headers={"last-event-id": "²".encode()})
            if method == "POST":
                for kind in JSON_KINDS:
                    for body in BAD_JSON:
                        told = {} if kind is None else {"content-type": kind}
                        status = await ask(method, path, content=body, headers=told)
                        assert status >= 400, (path, kind, body)
                for body in BAD_FORMS:
                    await ask(method, path, content=body, headers={"content-type": FORM})
    return asked
