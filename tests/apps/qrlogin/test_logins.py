"""A login from its start to its end, on each store, with a phone that scans (C2, C5, C7, C8, C10)."""

import asyncio
from pathlib import Path

import pytest

from qrlogin.simulated import ScanRefused
from qrlogin.tl import StringSession
from tests.apps.qrlogin.conftest import USER, World, opened


async def test_a_scan_logs_in_and_the_session_is_saved(world: World) -> None:
    session_id = await world.log_in(account=7)
    [saved] = await world.saved()
    assert (saved["session_id"], saved["account_id"], saved["status"]) == (str(session_id), "7", "current")
    session = await world.places.saving.session_of(USER)
    assert session is not None
    assert StringSession(session).auth_key is not None
    assert world.telegram.logged_in() == [7]
    assert not await world.places.saving.held()


async def test_the_third_login_works_and_the_old_sessions_stay_as_a_log(world: World) -> None:
    made = [str(await world.log_in()) for _ in range(3)]
    saved = {row["session_id"]: row for row in await world.saved()}
    assert [saved[one]["status"] for one in made] == ["replaced", "replaced", "current"]
    assert [saved[one]["replaced_by"] for one in made] == [made[1], made[2], None]


async def test_an_account_with_a_password_is_asked_for_it_until_it_is_right(world: World) -> None:
    session_id = await world.start()
    await world.phone(7, "right").scan(await world.code(session_id))
    await world.asks_for_password(session_id)
    assert await world.status(session_id) == "scanned"
    await world.give_password(session_id, "wrong")
    await world.asks_for_password(session_id, wrong=1)
    await world.give_password(session_id, "right")
    assert await world.ended(session_id) == "done"
    assert world.telegram.logged_in() == [7]


async def test_too_many_wrong_passwords_end_the_login(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, password_tries=2) as world:
        session_id = await world.start()
        await world.phone(7, "right").scan(await world.code(session_id))
        for wrong in range(2):
            await world.asks_for_password(session_id, wrong)
            await world.give_password(session_id, "wrong")
        assert await world.ended(session_id) == "failed"
        assert await world.reason(session_id) == "password_wrong"
        assert world.telegram.logged_in() == []


async def test_a_code_that_nobody_scans_expires_and_the_next_login_works(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ttl=1) as world:
        session_id = await world.start()
        assert await world.ended(session_id) == "expired"
    async with opened(store, tmp_path) as world:
        await world.log_in()


async def test_a_new_code_is_shown_before_the_old_one_expires_and_both_can_be_scanned(
    store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path, code_seconds=3.0, renew_before=2.5) as world:
        first = await world.start("ann")
        old = await world.code(first)
        new = await world.code(first, other_than=old)
        await world.phone(1).scan(old)  # the one that somebody saw a moment ago
        assert await world.ended(first) == "done"
        second = await world.start("bob")
        await world.phone(2).scan(await world.code(second, other_than=await world.code(second)))
        assert await world.ended(second) == "done"
        with pytest.raises(ScanRefused, match="AUTH_TOKEN_ALREADY_ACCEPTED"):
            await world.phone(3).scan(new)


async def test_a_scan_while_the_code_is_renewed_is_not_lost(tmp_path: Path) -> None:
    """A code that is renewed all the time: the scan falls into a renewal, which then gets the login as its answer."""
    async with opened("", tmp_path, code_seconds=30.0, renew_before=29.9, migrate=0.3) as world:
        started = [await world.start(f"user-{number}") for number in range(20)]
        codes = await asyncio.gather(*map(world.code, started))
        phones = [world.phone(number + 1, "right" if number % 5 == 0 else None) for number in range(20)]
        await asyncio.gather(*(phone.scan(code) for phone, code in zip(phones, codes, strict=True)))
        for session_id in started[::5]:
            await world.asks_for_password(session_id)
            await world.give_password(session_id, "right")
        assert [await world.ended(one) for one in started] == ["done"] * 20
        assert sorted(world.telegram.logged_in()) == list(range(1, 21))


async def test_a_login_that_telegram_sends_to_another_data_centre_works(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, migrate=1.0) as world:
        await world.log_in()


async def test_a_cancelled_login_stays_cancelled_though_its_code_is_scanned(world: World) -> None:
    session_id = await world.start()
    code = await world.code(session_id)
    assert (await world.manager.cancel(session_id)).won
    try:
        await world.phone().scan(code)
    except ScanRefused:
        pass
    assert await world.status(session_id) == "failed"
    assert not (await world.manager.cancel(session_id)).won
    await world.log_in()
    assert len(world.telegram.logged_in()) == 1
    assert len(await world.saved()) == 1


async def test_many_users_log_in_at_once_and_none_gets_another_s_session(world: World) -> None:
    users = [f"user-{number}" for number in range(40)]
    started = await asyncio.gather(*map(world.start, users))
    codes = await asyncio.gather(*map(world.code, started))
    assert len(set(codes)) == 40
    await asyncio.gather(*(world.phone(number + 1).scan(code) for number, code in enumerate(codes)))
    assert [await world.ended(one) for one in started] == ["done"] * 40
    for number, user in enumerate(users):
        [saved] = await world.saved(user)
        assert saved["account_id"] == str(number + 1)


async def test_process_qr_session_takes_the_active_attempt_to_its_end(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as world:
        assert not await world.manager.process_qr_session("nobody")
        session_id = await world.log_in()
        assert not await world.manager.process_qr_session(USER)  # it has ended
        assert await world.status(session_id) == "done"


async def test_everything_can_live_in_postgresql(empty_postgres: str, tmp_path: Path) -> None:
    async with opened("", tmp_path, database=empty_postgres) as world:
        made = [str(await world.log_in()) for _ in range(2)]
        assert {row["session_id"]: row["status"] for row in await world.saved()} == {
            made[0]: "replaced",
            made[1]: "current",
        }
        session_id = await world.start()
        await world.phone(7, "right").scan(await world.code(session_id))
        await world.asks_for_password(session_id)
        await world.start()
        assert await world.status(session_id) == "superseded"
        assert (await world.manager.check_session_health(USER))["healthy"]
