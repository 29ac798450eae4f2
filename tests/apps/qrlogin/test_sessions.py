"""The way of a saved session out of here: for the backend with the token, and back into a client that works."""

import asyncio
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from qrlogin.cli import main
from qrlogin.sealing import new_key
from qrlogin.simulated.client import SimulatedClient
from tests.apps.qrlogin.conftest import USER, World, opened
from tests.apps.qrlogin.test_api import TOKEN, api_of

BACKEND = {"Authorization": f"Bearer {TOKEN}"}
PATH = f"/users/{USER}/session"


async def works_at_telegram(world: World, session: str) -> bool:
    """Whether a client with this session is logged in: it can log out, once."""
    client = SimulatedClient(world.line, session)
    await client.connect()
    device = world.telegram.devices[client._auth]
    await client.disconnect()
    return device.authorized


async def test_a_backend_gets_the_current_session_and_a_client_made_of_it_is_logged_in(
    store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path, token=TOKEN) as world, api_of(world) as api:
        assert (await api.get(PATH, headers=BACKEND)).status_code == 404
        await world.log_in(USER, 7)
        session_id = await world.log_in(USER, 7)
        answer = await api.get(PATH, headers=BACKEND)
        told = answer.json()
        assert told["session_id"] == str(session_id)
        assert told["account_id"] == "7"
        assert answer.headers["cache-control"] == "no-store"
        assert await works_at_telegram(world, told["session"])


async def test_a_session_is_handed_to_nobody_without_the_token(store: str, tmp_path: Path) -> None:
    for settings in ({"token": TOKEN}, {}):
        async with opened(store, tmp_path, **settings) as world, api_of(world) as api:  # type: ignore[arg-type]
            session_id = await world.log_in()
            attempt = {"Authorization": f"Bearer {world.settings.signer().token(session_id)}"}
            for headers in ({}, attempt, {"Authorization": "Bearer "}, {"Authorization": "Bearer None"}):
                assert (await api.get(PATH, headers=headers)).status_code == 401
                assert (await api.delete(PATH, headers=headers)).status_code == 401
            assert len([one for one in await world.saved() if one["status"] == "current"]) == 1


async def test_a_revoked_session_is_logged_out_at_telegram_and_handed_out_no_more(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, token=TOKEN) as world, api_of(world) as api:
        await world.log_in(USER, 7)
        assert world.telegram.logged_in() == [7]
        answer = await api.delete(PATH, headers=BACKEND, params={"reason": "left the company"})
        assert answer.json()["logged_out"] is True
        assert world.telegram.logged_in() == []
        assert (await api.get(PATH, headers=BACKEND)).status_code == 404
        [saved] = await world.saved()
        assert saved["status"] == "revoked"
        await world.log_in(USER, 7)
        assert (await api.get(PATH, headers=BACKEND)).status_code == 200


async def run(world: World, *words: str) -> Any:
    environment = {
        "QRLOGIN_FOLDER": str(world.settings.folder),
        "QRLOGIN_SIMULATED": f"127.0.0.1:{world.telegram.port}",
    }
    return await asyncio.to_thread(CliRunner().invoke, main, ["sessions", *words], env=environment)


async def test_an_operator_exports_and_revokes_a_session_by_the_command_line(tmp_path: Path) -> None:
    async with opened("", tmp_path) as world:
        session_id = await world.log_in(USER, 7)
        told = await run(world, USER, "--export")
        assert told.exit_code == 0
        assert await works_at_telegram(world, told.stdout.strip())
        assert (await run(world, "nobody", "--export")).exit_code == 4
        revoked = await run(world, "--revoke", str(session_id), "--reason", "lost phone")
        assert revoked.exit_code == 0
        assert "logged out at Telegram" in revoked.stderr
        assert world.telegram.logged_in() == []
        assert (await run(world, USER, "--export")).exit_code == 4


async def test_a_login_is_saved_while_many_sessions_are_sealed_with_a_new_key(tmp_path: Path, monkeypatch: Any) -> None:
    """In small steps, each with its own transaction: the lock of the database is free in between."""
    monkeypatch.setattr("qrlogin.saving.ROTATED_AT_ONCE", 2)
    old, new = new_key(), new_key()
    async with opened("", tmp_path, keys=f"a={old}") as world:
        for number in range(5):
            await world.log_in(f"user-{number}", number + 1)
    async with opened("", tmp_path, keys=f"b={new},a={old}") as world:
        begun = 0
        transaction = world.places.database.transaction

        def counted() -> Any:
            nonlocal begun
            begun += 1
            return transaction()

        saving = world.places.saving
        monkeypatch.setattr(saving._database, "transaction", counted)
        assert await saving.rotate() == 5
        assert begun >= 3
        monkeypatch.undo()
        assert await saving.rotate() == 0
        assert {row["key_id"] for row in await saving.listed()} == {"b"}
        assert await saving.session_of("user-3") is not None


def test_the_embedded_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    async def made() -> None:
        async with opened("", tmp_path / "folder", ingest=False):
            pass

    asyncio.run(made())
    assert (tmp_path / "folder" / "qrlogin.db").stat().st_mode & 0o077 == 0
