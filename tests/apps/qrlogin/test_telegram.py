"""What Telegram may do to a login: refuse a logout, hang, have another clock, or be away when a session must end."""

import asyncio
from pathlib import Path

import pytest

from qrlogin import login, telegram
from qrlogin.leaving import leave
from qrlogin.simulated import SimulatedTelegram
from qrlogin.simulated.client import SimulatedClient
from qrlogin.tl import srp
from tests.apps.qrlogin.conftest import World, opened, until
from tests.apps.qrlogin.ingest_process import IngestProcess
from tests.apps.qrlogin.test_cancel import standing_at


async def nobody_is_connected(world: World) -> None:
    async def so() -> bool:
        return world.line.connected == 0

    await until(so, lambda: f"no client is connected, not {world.line.connected}")


async def test_a_client_disconnects_though_telegram_refuses_its_logout(world: World) -> None:
    """Telegram does not log out a client that still has to give a password; Telethon then stays connected."""
    session_id = await world.start()
    await world.phone(7, "right").scan(await world.code(session_id))
    await world.asks_for_password(session_id)
    assert world.line.connected == 1
    assert (await world.manager.cancel(session_id)).won
    await nobody_is_connected(world)


async def test_a_client_disconnects_though_telegram_never_answers_its_logout(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qrlogin.leaving.GOODBYE", 0.2)
    client = SimulatedClient(world.line)
    await client.connect()
    world.telegram.silent = True
    assert not await leave(client, log_out=True)
    assert world.line.connected == 0


async def test_a_login_whose_telegram_hangs_ends_when_its_time_is_over(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ttl=3) as world:
        shown = await world.start("shown")
        await world.code(shown)
        world.telegram.silent = True
        never = await world.start("never")
        assert await world.ended(never) == "expired"
        assert await world.ended(shown) == "expired"
        assert await world.reason(never) == "not_scanned"


async def test_a_hanging_telegram_is_asked_again_and_a_scanned_login_fails_with_the_reason(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telegram, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(login, "UNREACHABLE", 2.0)
    async with opened(store, tmp_path) as world:
        asked = await world.start("asked")
        await world.phone(2, "right").scan(await world.code(asked))
        await world.asks_for_password(asked)
        world.telegram.silent = True
        later, never = await world.start("later"), await world.start("never")
        await world.give_password(asked, "right")
        assert await world.ended(asked) == "failed"
        assert await world.reason(asked) == "telegram_silent"
        assert await world.ended(never) == "failed"
        assert await world.reason(never) == "telegram_unreachable"
        again = await world.start("later")
        world.telegram.silent = False
        await world.phone(3).scan(await world.code(again))
        assert await world.ended(again) == "done"
        assert await world.status(later) in ("superseded", "failed")


@pytest.mark.parametrize("ahead", [-40.0, 40.0])
async def test_a_code_is_renewed_by_the_clock_of_telegram(tmp_path: Path, ahead: float) -> None:
    """With a clock 40 s beside Telegram's a code looked expired, and one was asked for every half second."""
    async with SimulatedTelegram(code_seconds=6.0, clock=ahead) as server:
        async with opened("", tmp_path, telegram=server, renew_before=3.0) as world:
            session_id = await world.start()
            first = await world.code(session_id)
            await world.code(session_id, other_than=first)  # in time, and not before
            assert server.exports == 2
            row = await world.places.row(session_id)
            assert row is not None
            await world.phone().scan(await world.code(session_id))
            assert await world.ended(session_id) == "done"


async def test_the_proof_of_a_password_does_not_hold_up_other_logins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes about a second of computing: it runs in a thread, and the loop goes on."""
    loop = asyncio.get_running_loop()
    computing = srp.compute_check

    def proof(asked: object, password: str) -> object:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        assert loop.is_running()
        return computing(asked, password)

    monkeypatch.setattr(srp, "compute_check", proof)
    session_id = await world.start()
    await world.phone(7, "right").scan(await world.code(session_id))
    await world.asks_for_password(session_id)
    await world.give_password(session_id, "right")
    assert await world.ended(session_id) == "done"


async def test_a_cancelled_login_whose_process_died_is_logged_out_by_the_next_one(store: str, tmp_path: Path) -> None:
    """Its session was held already: whoever forgets it ends it at Telegram first."""
    async with standing_at(store, tmp_path, "authorized") as (world, session_id, ingest):
        ingest.kill()
        assert (await world.manager.cancel(session_id)).won
        assert world.telegram.logged_in() == [7]
        with IngestProcess(world.settings, world.telegram.port):

            async def gone() -> bool:
                return not world.telegram.logged_in() and not await world.places.saving.held()

            await until(gone, lambda: f"nobody is logged in, not {world.telegram.logged_in()}")
        assert await world.saved() == []


async def test_a_session_whose_attempt_the_store_forgot_is_ended_at_telegram(redis_store: str, tmp_path: Path) -> None:
    """No ingest for a quarter of an hour at session_saved: nothing is saved, and no device stays logged in unseen."""
    async with standing_at(redis_store, tmp_path, "session_saved") as (world, session_id, ingest):
        ingest.kill()
        client = world.places.beside.client  # type: ignore[attr-defined]
        await client.delete(f"tg:qr:session:{session_id}")  # as its time to live does
        with IngestProcess(world.settings, world.telegram.port):

            async def gone() -> bool:
                return not world.telegram.logged_in() and not await world.places.saving.held()

            await until(gone, lambda: f"nobody is logged in, not {world.telegram.logged_in()}")
        assert await world.saved() == []
