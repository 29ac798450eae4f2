"""Whose phone may scan: the account of the user and no other, so that no session takes the place of another's."""

from pathlib import Path
from typing import Any

import pytest

from qrlogin.identity import AccountNeeded, SessionId
from tests.apps.qrlogin.conftest import USER, World, opened, until
from tests.apps.qrlogin.test_api import BOT, TOKEN, api_of, init_data


async def ends_as_another_account(world: World, session_id: SessionId) -> None:
    assert await world.ended(session_id) == "failed"
    assert await world.reason(session_id) == "other_account"


async def only_logged_in(world: World, *accounts: int) -> None:
    async def so() -> bool:
        return sorted(world.telegram.logged_in()) == sorted(accounts)

    await until(so, lambda: f"{accounts} are logged in, not {world.telegram.logged_in()}")


async def test_the_phone_of_another_account_cannot_replace_the_session_of_a_user(store: str, tmp_path: Path) -> None:
    """A stranger with the token of an attempt scans it: the user's own session stays current."""
    async with opened(store, tmp_path, any_account=False) as world:
        own = await world.log_in(USER, int(USER))
        attacked = await world.start()
        await world.phone(666).scan(await world.code(attacked))
        await ends_as_another_account(world, attacked)
        [saved] = await world.saved()
        assert (saved["session_id"], saved["account_id"], saved["status"]) == (str(own), USER, "current")
        assert await world.places.saving.held() == []
        await only_logged_in(world, int(USER))


async def test_a_victim_that_scans_the_code_of_an_attacker_is_logged_out_again(store: str, tmp_path: Path) -> None:
    """QR phishing, also with a password: the attacker's own attempt fails, and no device is left at Telegram."""
    async with opened(store, tmp_path, any_account=False) as world:
        plain, protected = await world.start("666"), await world.start("667")
        await world.phone(int(USER)).scan(await world.code(plain))
        await world.phone(int(USER), "right").scan(await world.code(protected))
        await world.asks_for_password(protected)
        await world.give_password(protected, "right")
        for session_id in (plain, protected):
            await ends_as_another_account(world, session_id)
            assert await world.saved(session_id.user_id) == []
        await only_logged_in(world)


async def test_a_backend_names_the_account_of_a_user_whose_id_is_not_one(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, any_account=False) as world:
        with pytest.raises(AccountNeeded):
            await world.start("ann")
        for account, end in ((8, "failed"), (7, "done")):
            session_id = SessionId.parsed(await world.manager.create_session("ann", account_id=7))
            await world.phone(account).scan(await world.code(session_id))
            assert await world.ended(session_id) == end
        again = SessionId.parsed(await world.manager.try_again(session_id))
        await world.phone(8).scan(await world.code(again))
        await ends_as_another_account(world, again)
        await only_logged_in(world, 7)


async def test_an_attempt_that_was_started_before_accounts_were_kept_is_for_the_account_of_its_user(
    redis_store: str, tmp_path: Path
) -> None:
    async with opened(redis_store, tmp_path, any_account=False, ingest=False) as world:
        session_id = await world.start()
        client = world.places.beside.client  # type: ignore[attr-defined]
        await client.hdel(f"tg:qr:session:{session_id}", "expected_account", "chain_unix")
        async with opened(redis_store, tmp_path, telegram=world.telegram):
            await world.phone(666).scan(await world.code(session_id))
            await ends_as_another_account(world, session_id)


async def test_the_account_is_told_by_the_backend_and_never_by_a_mini_app(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"any_account": False, "token": TOKEN, "bot_token": BOT}
    async with opened("", tmp_path, ingest=False, **settings) as world, api_of(world) as api:
        backend = {"Authorization": f"Bearer {TOKEN}"}
        answer = await api.post("/logins", json={"user_id": "ann"}, headers=backend)
        assert answer.status_code == 422
        assert "account_id" in answer.json()["detail"]
        made = await api.post("/logins", json={"user_id": "ann", "account_id": 7}, headers=backend)
        row = await world.places.row(SessionId.parsed(made.json()["session_id"]))
        assert row is not None
        assert row["expected_account"] == "7"
        app = {"X-Telegram-Init-Data": init_data(77)}
        assert (await api.post("/logins", json={"account_id": 8}, headers=app)).status_code == 401
        assert (await api.post("/logins", json={"account_id": 77}, headers=app)).status_code == 201
        for wrong in (0, -1, 2**63, "seven", 1.5):
            body = {"user_id": "ann", "account_id": wrong}
            assert (await api.post("/logins", json=body, headers=backend)).status_code in (400, 422)
