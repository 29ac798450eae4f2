"""No session, code, token or password is in anything that is printed, logged or measured (security, 6)."""

import asyncio
import logging
from pathlib import Path

import httpx
import pytest

from appkit.loops import Loops
from qrlogin.api import login_app
from qrlogin.diagnose import report
from qrlogin.identity import SessionId
from qrlogin.lifecycle import Attempt
from qrlogin.metrics import Metrics
from qrlogin.sealing import new_key
from qrlogin.seeing import code_url
from tests.apps.qrlogin.conftest import USER, opened

PASSWORD = "canary-password"
SIGNING = "canary-signing-secret"


async def test_nothing_that_is_told_to_anybody_carries_a_secret(
    store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    key = new_key()
    async with opened(store, tmp_path, keys=f"canary={key}", signing=SIGNING, password_tries=3) as world:
        metrics = Metrics()
        app = login_app(world.service, Loops(), metrics, world.settings, world.line)
        transport = httpx.ASGITransport(app=app)
        said = []
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as api:
            started = (await api.post("/logins", json={"user_id": USER})).json()
            name, mine = started["session_id"], {"Authorization": f"Bearer {started['token']}"}
            session_id = SessionId.parsed(name)
            url = await world.code(session_id)
            await world.phone(7, PASSWORD).scan(url)
            for wrong, given in enumerate((PASSWORD + "-wrong", PASSWORD)):
                await world.asks_for_password(session_id, wrong)
                answer = await api.post(f"/logins/{name}/password", headers=mine, json={"password": given})
                said.append(answer.text)
            assert await world.ended(session_id) == "done"
            session = await world.places.saving.session_of(USER)
            assert session is not None
            for way in ("", "/events", "/page"):
                said.append((await api.get(f"/logins/{name}{way}", headers=mine)).text)
            bad = await api.post(f"/logins/{name}/password", headers=mine, json={"password": [PASSWORD]})
            assert bad.status_code == 422
            said.append(bad.text)
            said.append((await api.get("/metrics")).text)
            said.append((await api.get("/health")).text)
        app.state.stop_counting()
        assert await code_url(world.places, session_id) is None
        await report(world.settings, USER, False, "json")
        await report(world.settings, None, False, "json")
        said += [str(await world.saved()), repr(world.settings), str(await world.places.row(session_id))]
        history = await world.places.of(USER).history(Attempt, session_id.key)
        said.append(str(history))
        said.append(await asyncio.to_thread(_everything_stored, tmp_path))
    said += [caplog.text, *capfd.readouterr()]
    secrets = {
        "the session": session,
        "the code": url.partition("=")[2],
        "the password": PASSWORD,
        "the key": key,
        "the signing secret": SIGNING,
        "the token": started["token"],
    }
    for what, secret in secrets.items():
        for number, text in enumerate(said):
            assert secret not in text, (what, number)
    assert USER not in said[6]  # no user is a label


def _everything_stored(folder: Path) -> str:
    """The files of the database: what is in there is sealed."""
    return "".join(path.read_bytes().decode("latin-1") for path in folder.glob("qrlogin.db*"))
