"""The token of an attempt ends, and starts nothing when its attempt is forgotten."""

import time
from pathlib import Path

import httpx
import pytest

from qrlogin import identity, manager
from qrlogin.identity import SessionId, Signer
from qrlogin.lifecycle import AGAIN_SECONDS, TOKEN_SECONDS
from raceproof.webhooks import Secret
from tests.apps.qrlogin.conftest import USER, World, opened
from tests.apps.qrlogin.test_api import api_of, start


async def answers(api: httpx.AsyncClient, name: str, mine: dict[str, str]) -> list[int]:
    told = [await api.get(f"/logins/{name}{way}", headers=mine) for way in ("", "/code.svg", "/page")]
    for way in ("again", "enter", "cancel"):
        told.append(await api.post(f"/logins/{name}/{way}", headers=mine))
    return [one.status_code for one in told]


async def test_a_token_opens_nothing_after_its_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with api_of(world) as api:
        name, mine = await start(api)
        later = time.time() + TOKEN_SECONDS + 1
        monkeypatch.setattr(identity.time, "time", lambda: later)  # type: ignore[attr-defined]
        assert await answers(api, name, mine) == [401] * 6


def test_a_token_is_good_from_the_start_of_its_attempt_on_and_not_for_ever() -> None:
    signer = Signer([Secret("one secret of ours")])
    session_id = SessionId.made_for(USER)
    token, began = signer.token(session_id), float(session_id.unix)
    assert signer.accepts(session_id, token, began + TOKEN_SECONDS - 1)
    assert not signer.accepts(session_id, token, began + TOKEN_SECONDS)
    assert signer.accepts(session_id, token, began - 60)  # by the clock of another instance
    assert not signer.accepts(session_id, token, began - 3600)


async def test_the_token_of_a_forgotten_attempt_starts_no_other(world: World) -> None:
    async with api_of(world) as api:
        name, mine = await start(api)
        await api.post(f"/logins/{name}/cancel", headers=mine)
        assert await world.places.beside.forget(SessionId.parsed(name))
        open_one = await world.start()
        answer = await api.post(f"/logins/{name}/again", headers=mine)
        assert answer.status_code == 404
        assert "token" not in answer.json()
        assert await world.status(open_one) in ("pending", "qr_rendered")


async def test_a_chain_of_new_tries_ends_an_hour_after_the_first_one(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store, tmp_path, ingest=False) as world, api_of(world) as api:
        name, mine = await start(api)
        again = (await api.post(f"/logins/{name}/again", headers=mine)).json()
        mine = {"Authorization": f"Bearer {again['token']}"}
        later = time.time() + AGAIN_SECONDS + 1
        monkeypatch.setattr(manager.time, "time", lambda: later)  # type: ignore[attr-defined]
        refused = await api.post(f"/logins/{again['session_id']}/again", headers=mine)
        assert refused.status_code == 403
        assert await world.status(SessionId.parsed(again["session_id"])) == "pending"
