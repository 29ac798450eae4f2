"""A cancel that is confirmed is true: no session is saved, and none is left at Telegram."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from qrlogin.identity import SessionId
from tests.apps.qrlogin.conftest import USER, World, opened, until
from tests.apps.qrlogin.ingest_process import IngestProcess
from tests.apps.qrlogin.test_api import api_of


@asynccontextmanager
async def standing_at(
    store: str, folder: Path, status: str, lease: float = 600.0
) -> AsyncIterator[tuple[World, SessionId, IngestProcess]]:
    """A login whose ingest process stands still at this status."""
    async with opened(store, folder, ingest=False, lease=lease) as world:
        with IngestProcess(world.settings, world.telegram.port, at_of={USER: status}) as ingest:
            session_id = await world.start()
            await world.phone(7).scan(await world.code(session_id))
            await world.at(session_id, status)
            yield world, session_id, ingest


async def test_a_login_whose_session_is_being_saved_cannot_be_cancelled(store: str, tmp_path: Path) -> None:
    async with standing_at(store, tmp_path, "session_saved") as (world, session_id, ingest):
        async with api_of(world) as api:
            token = world.settings.signer().token(session_id)
            mine = {"Authorization": f"Bearer {token}"}
            answer = await api.post(f"/logins/{session_id}/cancel", headers=mine)
        assert answer.status_code == 409
        assert "being saved" in answer.json()["detail"]
        ingest.go_on()
        assert await world.ended(session_id) == "done"
        [saved] = await world.saved()
        assert saved["status"] == "current"


async def test_a_login_that_is_cancelled_before_its_session_is_saved_leaves_nothing(store: str, tmp_path: Path) -> None:
    async with standing_at(store, tmp_path, "authorized") as (world, session_id, ingest):
        assert (await world.manager.cancel(session_id)).won
        ingest.go_on()

        async def gone() -> bool:
            return not world.telegram.logged_in() and not await world.places.saving.held()

        await until(gone, lambda: f"nobody is logged in, not {world.telegram.logged_in()}")
        assert await world.saved() == []
        assert (await world.status(session_id), await world.reason(session_id)) == ("failed", "cancelled")


async def test_a_cancel_while_the_database_is_slow_is_refused_or_true(tmp_path: Path) -> None:
    """As in the field: another process has the write lock of the database when the login is about to be saved."""
    database = tmp_path / "slow.db"
    async with opened("", tmp_path, database=f"sqlite:///{database}") as world:
        session_id = await world.start()
        code = await world.code(session_id)
        lock = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN IMMEDIATE")
        await world.phone(7).scan(code)
        cancelling = asyncio.create_task(world.manager.cancel(session_id))
        lock.execute("ROLLBACK")
        lock.close()
        answer = await cancelling
        end = await world.ended(session_id)
        assert end == ("failed" if answer.won else "done")
        saved = [row["status"] for row in await world.saved()]
        assert saved == ([] if answer.won else ["current"])
