"""Processes and servers that die in the middle: an open attempt is taken over or ended with a reason, never stuck."""

import asyncio
import signal
from pathlib import Path

import pytest

from qrlogin.identity import SessionId
from qrlogin.lifecycle import OPEN
from qrlogin.seeing import follow
from raceproof.testing import valkey
from tests.apps.qrlogin.conftest import USER, World, opened, until
from tests.apps.qrlogin.ingest_process import IngestProcess
from tests.standstill import stand_still


async def _until_held(world: World, session_id: SessionId, by: str) -> None:
    async def held() -> bool:
        row = await world.places.row(session_id)
        return row is not None and row.get("claimed_by") == by

    await until(held, lambda: f"{by} has taken {session_id}")


@pytest.mark.parametrize("status", OPEN)
async def test_an_ingest_that_is_killed_at_a_status_leaves_nothing_stuck(
    store: str, tmp_path: Path, status: str
) -> None:
    async with opened(store, tmp_path, ingest=False, lease=1.0) as world:
        with IngestProcess(world.settings, world.telegram.port, at=status) as doomed:
            session_id = await world.start()
            if status not in ("pending", "qr_rendered"):
                await world.phone(7).scan(await world.code(session_id))
            await world.at(session_id, status)
            if status == "pending":
                await _until_held(world, session_id, "process-pending")
            doomed.kill()
        with IngestProcess(world.settings, world.telegram.port):
            if status in ("pending", "qr_rendered"):
                await _until_held(world, session_id, "process-free")
                await world.phone(7).scan(await world.code(session_id))
            assert await world.ended(session_id) == ("failed" if status == "scanned" else "done")
        saved = [row["session_id"] for row in await world.saved()]
        if status == "scanned":
            assert await world.reason(session_id) == "ingest_restarted"
            assert saved == []
        else:
            assert saved == [str(session_id)]
            assert await world.places.saving.session_of(USER) is not None


async def test_whoever_follows_is_shown_the_code_of_the_process_that_has_taken_over(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False, lease=1.0) as world:
        session_id = await world.start()
        versions: list[str] = []
        closing = asyncio.Event()

        async def follower() -> None:
            async for _, told in follow(world.places, session_id, closing):
                if told and told["code"]:
                    versions.append(told["code"]["version"])

        following = asyncio.create_task(follower())
        for number in (1, 2):
            with IngestProcess(world.settings, world.telegram.port):

                async def shown(wanted: int = number) -> bool:
                    return len(set(versions)) == wanted

                await until(shown, lambda: f"code after code is shown, not {versions}")
        closing.set()
        await following


async def test_a_paused_ingest_wakes_up_to_refusals_and_one_session_is_saved(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False, lease=1.0) as world:
        with IngestProcess(world.settings, world.telegram.port, at="none") as paused:
            session_id = await world.start()
            old = await world.code(session_id)
            stand_still(paused.pid, world.settings.database_url)
            with IngestProcess(world.settings, world.telegram.port):
                new = await world.code(session_id, other_than=old)
                await world.phone(1).scan(old)  # the client behind it is the paused one
                paused.signal(signal.SIGCONT)
                await world.phone(2).scan(new)
                assert await world.ended(session_id) == "done"

                async def alone() -> bool:
                    return world.telegram.logged_in() == [2]

                await until(alone, lambda: f"one login is left, not {world.telegram.logged_in()}")
        [saved] = await world.saved()
        assert saved["account_id"] == "2"


async def test_a_paused_ingest_does_not_log_out_the_session_that_another_has_saved_meanwhile(
    store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path, ingest=False, lease=1.0) as world:
        with IngestProcess(world.settings, world.telegram.port, at="authorized") as paused:
            session_id = await world.start()
            await world.phone(7).scan(await world.code(session_id))
            await world.at(session_id, "authorized")
            stand_still(paused.pid, world.settings.database_url)
            with IngestProcess(world.settings, world.telegram.port):
                assert await world.ended(session_id) == "done"
            paused.signal(signal.SIGCONT)
            await asyncio.to_thread(paused.end)
        assert len(await world.saved()) == 1
        assert world.telegram.logged_in() == [7]


async def test_an_ingest_that_is_told_to_end_gives_its_attempts_to_another_at_once(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False, lease=600.0) as world:
        session_id = await world.start()
        with IngestProcess(world.settings, world.telegram.port) as first:
            old = await world.code(session_id)
            await asyncio.to_thread(first.end)
        with IngestProcess(world.settings, world.telegram.port):  # and not after 600 s
            await world.phone(7).scan(await world.code(session_id, other_than=old))
            assert await world.ended(session_id) == "done"


async def test_the_store_is_killed_and_started_again_in_the_middle_of_logins(tmp_path: Path) -> None:
    with valkey(appendfsync="always") as server:
        async with opened(server.url, tmp_path, lease=30.0) as world:
            shown = await world.start("ann")
            code = await world.code(shown)
            asked = await world.start("bob")
            await world.phone(2, "right").scan(await world.code(asked))
            await world.asks_for_password(asked)
            server.kill()
            await world.phone(1).scan(code)
            server.restart()
            assert await world.ended(shown) == "done"
            await world.give_password(asked, "right")
            assert await world.ended(asked) == "done"
            await world.log_in("carl", 3)


async def test_a_session_that_was_decided_and_not_kept_is_kept_later_and_one_that_was_not_is_forgotten(
    store: str, tmp_path: Path
) -> None:
    """Killed after the decision, superseded before anybody took over: upkeep settles what is in between."""
    async with opened(store, tmp_path, ingest=False, lease=1.0) as world:
        for user, status in (("ann", "session_saved"), ("bob", "authorized")):
            with IngestProcess(world.settings, world.telegram.port, at=status):
                session_id = await world.start(user)
                await world.phone(7).scan(await world.code(session_id))
                await world.at(session_id, status)
            await world.start(user)
            assert await world.status(session_id) == "superseded"
        with IngestProcess(world.settings, world.telegram.port):

            async def settled() -> bool:
                return not await world.places.saving.held()

            await until(settled, lambda: "nothing is held")
        assert len(await world.saved("ann")) == 1
        assert await world.saved("bob") == []
