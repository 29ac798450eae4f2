"""The HTTP interface: a token opens one attempt, limits hold, pictures are pictures (C7)."""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from appkit.loops import Loops
from qrlogin.api import login_app
from qrlogin.identity import SESSION_ID, BadSessionId, SessionId, Signer
from qrlogin.lifecycle import TOKEN_SECONDS
from qrlogin.metrics import Metrics
from qrlogin.miniapp import user_of
from qrlogin.sealing import CannotOpen, Vault, new_key, parsed_keys
from qrlogin.settings import Settings
from raceproof.webhooks import Secret
from tests.apps.qrlogin.conftest import USER, World, opened

TOKEN = "the token of the backend"
BOT = "12345:a-bot-token"


@asynccontextmanager
async def api_of(world: World, address: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    app = login_app(world.service, Loops(), Metrics(), world.settings, world.line)
    transport = httpx.ASGITransport(app=app, client=(address, 1), raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client
    finally:
        app.state.stop_counting()


@pytest.fixture
async def api(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with api_of(world) as client:
        yield client


async def start(api: httpx.AsyncClient, user: str = USER) -> tuple[str, dict[str, str]]:
    told = (await api.post("/logins", json={"user_id": user})).json()
    api.cookies.clear()
    return told["session_id"], {"Authorization": f"Bearer {told['token']}"}


async def test_a_login_by_http_from_its_start_to_its_end(api: httpx.AsyncClient, world: World) -> None:
    name, mine = await start(api)
    session_id = SessionId.parsed(name)
    await world.code(session_id)
    told = (await api.get(f"/logins/{name}", headers=mine)).json()
    assert told["status"] == "qr_rendered"
    assert 0 < told["code"]["seconds_left"] <= 30
    svg = await api.get(f"/logins/{name}/code.svg?theme=dark", headers=mine)
    png = await api.get(f"/logins/{name}/code.png", headers=mine)
    assert svg.text.startswith("<svg")
    assert svg.headers["cache-control"] == "no-store"
    assert png.content.startswith(b"\x89PNG")
    scanned = await api.post(f"/logins/{name}/simulated-scan", headers=mine, json={"account": "password"})
    assert scanned.json() == {"account_id": int(USER)}
    await world.asks_for_password(session_id)
    assert (await api.get(f"/logins/{name}/code.svg", headers=mine)).status_code == 404
    given = await api.post(f"/logins/{name}/password", headers=mine, json={"password": "swordfish"})
    assert given.status_code == 202
    assert await world.ended(session_id) == "done"
    events = (await api.get(f"/logins/{name}/events", headers=mine)).text
    assert '"status": "done"' in events
    assert (await api.post(f"/logins/{name}/cancel", headers=mine)).status_code == 409


async def test_the_token_of_one_attempt_opens_no_other(api: httpx.AsyncClient, world: World) -> None:
    mine, my_token = await start(api, "ann")
    other, _ = await start(api, "bob")
    missing = f"bob:1:{'a' * 8}"
    answers = []
    for name in (other, missing):
        for headers in (my_token, {}, {"Authorization": "Bearer x"}, {"Cookie": "qrlogin=x"}):
            for way in ("", "/events", "/code.svg", "/code.png"):
                answers.append(await api.get(f"/logins/{name}{way}", headers=headers))
            for way, body in (("cancel", {}), ("password", {"password": "x"}), ("again", {}), ("enter", {})):
                answers.append(await api.post(f"/logins/{name}/{way}", headers=headers, json=body))
            answers.append(await api.post(f"/logins/{name}/simulated-scan", headers=headers, json={}))
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1  # nor does it tell whether there is one
    assert (await api.get(f"/logins/{mine}", headers=my_token)).status_code == 200
    assert await world.status(SessionId.parsed(other)) in ("pending", "qr_rendered")


async def test_the_cookie_is_for_the_page_of_one_attempt(api: httpx.AsyncClient) -> None:
    answer = await api.post("/logins", json={"user_id": USER})
    name = answer.json()["session_id"]
    cookie = answer.headers["set-cookie"]
    assert f"Path=/logins/{name}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (await api.get(f"/logins/{name}/page")).status_code == 200
    other, _ = await start(api, "bob")
    assert (await api.get(f"/logins/{other}/page")).status_code == 401


async def test_a_new_try_supersedes_the_old_one(api: httpx.AsyncClient, world: World) -> None:
    name, mine = await start(api)
    again = await api.post(f"/logins/{name}/again", headers=mine)
    assert again.status_code == 201
    assert again.json()["session_id"] != name
    assert await world.status(SessionId.parsed(name)) == "superseded"


async def test_no_password_is_taken_that_was_not_asked_for(api: httpx.AsyncClient) -> None:
    name, mine = await start(api)
    answer = await api.post(f"/logins/{name}/password", headers=mine, json={"password": "x"})
    assert answer.status_code == 409


async def test_a_page_of_another_origin_changes_nothing(api: httpx.AsyncClient) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert (await api.post("/logins", json={"user_id": USER}, headers=foreign)).status_code == 403
    name, mine = await start(api)
    for way in ("cancel", "again", "enter"):
        assert (await api.post(f"/logins/{name}/{way}", headers={**mine, **foreign})).status_code == 403


async def test_starts_are_limited_for_a_user_and_for_an_address(store: str, tmp_path: Path) -> None:
    async with (
        opened(store, tmp_path, ingest=False, starts_of_user=2, starts_of_address=5) as world,
        api_of(world) as api,
    ):
        codes = [(await api.post("/logins", json={"user_id": "ann"})).status_code for _ in range(3)]
        codes += [(await api.post("/logins", json={"user_id": f"u{n}"})).status_code for n in range(4)]
        assert codes == [201, 201, 429, 201, 201, 429, 429]


@pytest.mark.parametrize(
    "body",
    [
        '{"user_id": "a:b"}',
        '{"user_id": ""}',
        '{"user_id": "{x}"}',
        '{"user_id": 1}',
        '{"user_id": "\\ud800"}',
        '{"user_id": "*"}',
        "{}",
        "[]",
    ],
)
async def test_garbage_is_told_to_be_garbage(api: httpx.AsyncClient, body: str) -> None:
    answer = await api.post("/logins", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert (await api.get(f"/logins/{body.encode().hex()}")).status_code == 422


async def test_a_backend_needs_the_token_and_a_mini_app_the_signature_of_telegram(tmp_path: Path) -> None:
    async with opened("", tmp_path, ingest=False, token=TOKEN, bot_token=BOT) as world, api_of(world) as api:
        wanted = {"user_id": USER}
        assert (await api.post("/logins", json=wanted)).status_code == 401
        wrong = {"Authorization": "Bearer wrong"}
        assert (await api.post("/logins", json=wanted, headers=wrong)).status_code == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert (await api.post("/logins", json=wanted, headers=right)).status_code == 201
        app = {"X-Telegram-Init-Data": init_data(77)}
        made = await api.post("/logins", json={}, headers=app)
        assert made.json()["session_id"].startswith("77:")
        assert (await api.post("/logins", json=wanted, headers=app)).status_code == 401  # another's
        forged = {"X-Telegram-Init-Data": init_data(77, "12345:another")}
        assert (await api.post("/logins", json={}, headers=forged)).status_code == 401


def init_data(user: int, token: str = BOT, at: float | None = None) -> str:
    fields = {"auth_date": str(int(at or time.time())), "user": json.dumps({"id": user}), "query_id": "q"}
    checked = "\n".join(f"{name}={value}" for name, value in sorted(fields.items()))
    secret = hmac.digest(b"WebAppData", token.encode(), hashlib.sha256)
    return urlencode({**fields, "hash": hmac.new(secret, checked.encode(), hashlib.sha256).hexdigest()})


def test_the_data_of_a_mini_app_grows_old() -> None:
    assert user_of(init_data(7, at=1000), BOT, now=1100) == "7"
    assert user_of(init_data(7, at=1000), BOT, now=9999) is None
    assert user_of("hash=é", BOT) is None


@given(st.text())
def test_a_text_is_a_session_id_or_is_refused(text: str) -> None:
    try:
        assert str(SessionId.parsed(text)) == text
    except BadSessionId:
        pass


@given(st.from_regex(f"^{SESSION_ID}$", fullmatch=True), st.text(max_size=60))
def test_only_the_token_of_an_attempt_is_accepted_for_it(name: str, other: str) -> None:
    signer, rotated = (
        Signer([Secret("one secret of ours")]),
        Signer([Secret("a newer secret"), Secret("one secret of ours")]),
    )
    session_id = SessionId.parsed(name)
    now = float(session_id.unix)
    assert signer.accepts(session_id, signer.token(session_id), now)
    assert rotated.accepts(session_id, signer.token(session_id), now)
    assert not signer.accepts(session_id, rotated.token(session_id), now)
    assert not signer.accepts(session_id, other, now)
    assert not signer.accepts(session_id, signer.token(session_id), now + TOKEN_SECONDS)


def test_what_is_sealed_opens_with_the_keys_it_was_sealed_with_and_for_nothing_else() -> None:
    old, new = new_key(), new_key()
    before, after = Vault(parsed_keys(f"a={old}")), Vault(parsed_keys(f"b={new},a={old}"))
    sealed = before.seal("session of ann", "secret")
    assert sealed.key_id == "a"
    assert after.open("session of ann", sealed.text) == "secret"
    assert after.seal("session of ann", "secret").key_id == "b"
    for vault, purpose in ((after, "session of bob"), (Vault(parsed_keys(f"b={new}")), "session of ann")):
        with pytest.raises(CannotOpen):
            vault.open(purpose, sealed.text)


async def test_old_sessions_are_sealed_anew_with_a_new_key(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    async with opened("", tmp_path, keys=f"a={old}") as world:
        await world.log_in()
        session = await world.places.saving.session_of(USER)
    async with opened("", tmp_path, keys=f"b={new},a={old}", ingest=False) as world:
        assert await world.places.saving.rotate() == 1
        assert await world.places.saving.rotate() == 0
    async with opened("", tmp_path, keys=f"b={new}", ingest=False) as world:
        assert await world.places.saving.session_of(USER) == session


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "0.0.0.0"},
        {"api_id": 1},
        {"api_id": 1, "api_hash": "x"},
        {"api_id": 1, "api_hash": "x", "signing": "s" * 16, "keys": f"a={new_key()}"},
        {"url": "login.example.com"},
        {"signing": "short"},
        {"keys": "a=b"},
        {"store": "mysql://x"},
        {"ttl": 1000},
    ],
)
def test_settings_that_cannot_be_right_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)
