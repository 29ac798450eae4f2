"""The races of a login with processes of their own, and exact checks afterwards (C3, C5, C8).

See `test_restart` for processes and servers that are killed.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

from qrlogin.identity import SessionId
from qrlogin.lifecycle import ENDED, OPEN, Attempt
from qrlogin.seeing import code_url
from qrlogin.simulated import ScanRefused
from raceproof import Claim
from tests.apps.qrlogin.conftest import USER, World, opened, until
from tests.apps.qrlogin.ingest_process import IngestProcess, StartingProcess, barrier


async def test_of_many_starts_by_several_processes_at_once_one_attempt_is_open(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        together = barrier(3)
        starting = [StartingProcess(world.settings, USER, 10, together) for _ in range(3)]
        for one in starting:
            await asyncio.to_thread(one.end)
        known = await world.places.beside.known(USER)
        assert len(known.rows) == 30
        assert Counter(row["status"] for row in known.rows.values()) == {"pending": 1, "superseded": 29}
        active = await world.places.active(USER)
        assert active is not None
        assert [name for name, row in known.rows.items() if row["status"] == "pending"] == [active["session_id"]]
        assert known.pointer == active["session_id"]
        # each superseded one names a successor of its own, and the chain of all of them ends at the active one
        successor = {name: row.get("superseded_by") for name, row in known.rows.items()}
        last = next(name for name in successor if name not in successor.values())
        chain = [last]
        while successor[chain[-1]]:
            chain.append(str(successor[chain[-1]]))
        assert (len(chain), chain[-1]) == (30, active["session_id"])


async def test_a_start_over_an_attempt_at_each_status_and_an_ingest_that_writes_late(
    store: str, tmp_path: Path
) -> None:
    """It stands still at a status, the user starts again, and then it goes on without knowing."""
    accounts = {str(status): number for number, status in enumerate(OPEN, 1)}
    async with opened(store, tmp_path, ingest=False, lease=600.0) as world:
        with IngestProcess(world.settings, world.telegram.port, at_of={status: status for status in OPEN}) as late:
            old = {str(status): await world.start(status) for status in OPEN}
            for status, session_id in old.items():
                if status not in ("pending", "qr_rendered"):
                    await world.phone(accounts[status]).scan(await world.code(session_id))
                await world.at(session_id, status)
            await _has_all(world, old.values(), "process-late")
            shown = await world.code(old["qr_rendered"])
            new = {status: await world.start(status) for status in old}
            late.go_on()
            await world.phone(accounts["qr_rendered"]).scan(shown)
            for status, session_id in old.items():
                await _wrote_late(world, session_id)
                assert await world.status(session_id) == "superseded"
                assert await world.status(new[status]) in ("pending", "qr_rendered")
            await asyncio.to_thread(late.end)
        # what was decided before the start counts, and nothing else does
        for status, session_id in old.items():
            saved = [row["session_id"] for row in await world.saved(status)]
            assert saved == ([str(session_id)] if status == "session_saved" else []), status
        assert world.telegram.logged_in() == [accounts["session_saved"]]
        with IngestProcess(world.settings, world.telegram.port):
            await until(lambda: _nothing_held(world), lambda: "no session is in between")
            for status, session_id in new.items():
                await world.phone(accounts[status] + 100).scan(await world.code(session_id))
                assert await world.ended(session_id) == "done"
                [current] = [row for row in await world.saved(status) if row["status"] == "current"]
                assert current["session_id"] == str(session_id)


async def _nothing_held(world: World) -> bool:
    return not await world.places.saving.held()


async def _has_all(world: World, session_ids: Any, by: str) -> None:
    async def held() -> bool:
        rows = [await world.places.row(one) for one in session_ids]
        return all(row is not None and row.get("claimed_by") == by for row in rows)

    await until(held, lambda: f"{by} has taken all")


async def _wrote_late(world: World, session_id: SessionId) -> None:
    """Its next write is there, as one that was refused."""

    async def refused() -> bool:
        entries = await world.places.of(session_id.user_id).history(Attempt, session_id.key)
        return any(one.actor == "process-late" and one.outcome in ("refused", "lost") for one in entries)

    await until(refused, lambda: f"a late write of {session_id} is refused")


async def test_codes_that_two_phones_scan_at_once_let_one_of_them_in(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        with (
            IngestProcess(world.settings, world.telegram.port),
            IngestProcess(world.settings, world.telegram.port),
        ):
            started = [await world.start(f"user-{number}") for number in range(8)]
            expected: dict[str, str] = {}

            async def scanned_twice(number: int, session_id: SessionId) -> None:
                code = await world.code(session_id)
                phones = [number * 2 + 1, number * 2 + 2]
                told = await asyncio.gather(
                    *(world.phone(account).scan(code) for account in phones), return_exceptions=True
                )
                [winner] = [account for account, one in zip(phones, told, strict=True) if not _refused(one)]
                expected[str(session_id)] = str(winner)
                assert await world.ended(session_id) == "done"

            await asyncio.gather(*(scanned_twice(*one) for one in enumerate(started)))
        saved = {row["session_id"]: row["account_id"] for row in await world.places.saving.listed()}
        assert saved == expected
        assert sorted(map(str, world.telegram.logged_in())) == sorted(expected.values())
        assert len(world.telegram.devices) == 8


def _refused(told: Any) -> bool:
    assert told is None or not isinstance(told, Exception) or isinstance(told, ScanRefused)
    return isinstance(told, ScanRefused)


async def test_scans_around_the_moment_of_expiry_end_in_one_way_each(store: str, tmp_path: Path) -> None:
    """Before it, at it, after it: who is in has a saved session, and who is not has nothing at Telegram."""
    async with opened(store, tmp_path, ingest=False) as world:
        with IngestProcess(world.settings, world.telegram.port):
            users = [f"user-{number}" for number in range(12)]
            started = [SessionId.parsed(await world.manager.create_session(user, 3)) for user in users]

            async def scanned(number: int, session_id: SessionId) -> str:
                code = await _code_or_end(world, session_id)
                if code is None:
                    return await world.ended(session_id)
                ends = int(session_id.unix) + 3.5  # started within that second
                await asyncio.sleep(max(0.0, ends + (number - 6) * 0.15 - time.time()))  # the moment is aimed at
                told = await asyncio.gather(world.phone(number + 1).scan(code), return_exceptions=True)
                _refused(told[0])
                return await world.ended(session_id)

            ends = await asyncio.gather(*(scanned(*one) for one in enumerate(started)))
            inside = [number + 1 for number, status in enumerate(ends) if status == "done"]

            async def alone() -> bool:
                return sorted(world.telegram.logged_in()) == inside

            await until(alone, lambda: f"{inside} are in, not {world.telegram.logged_in()}")
            await until(lambda: _nothing_held(world), lambda: "no session is in between")
        assert set(ends) <= {"done", "expired", "failed"}
        saved = [int(row["account_id"]) for row in await world.places.saving.listed()]
        assert sorted(saved) == inside
        reasons = {"done": None, "expired": "not_scanned", "failed": "too_late"}
        for session_id, status in zip(started, ends, strict=True):
            assert (await world.reason(session_id) or None) == reasons[status]


async def _code_or_end(world: World, session_id: SessionId) -> str | None:
    """The code, unless on a busy machine it expires before anybody sees it."""
    found: list[str | None] = []

    async def shown_or_over() -> bool:
        code = await code_url(world.places, session_id)
        if code is not None or await world.status(session_id) in ENDED:
            found.append(code)
        return bool(found)

    await until(shown_or_over, lambda: f"{session_id} shows a code, or ends")
    return found[0]


async def test_every_write_of_a_login_that_was_taken_over_is_refused_by_its_fence(store: str, tmp_path: Path) -> None:
    """At each status: it stands still until its lease is over, another takes the attempt, and it goes on.

    The status is still the one that the late process expects, so nothing but the fence can refuse its next write.
    """
    async with opened(store, tmp_path, ingest=False, lease=1.0) as world:
        with IngestProcess(world.settings, world.telegram.port, at_of={status: status for status in OPEN}) as late:
            held = {str(status): await world.start(status) for status in OPEN}
            codes: dict[str, str] = {}
            for number, (status, session_id) in enumerate(held.items(), 1):
                if status != "pending":
                    codes[status] = await world.code(session_id)
                if status not in ("pending", "qr_rendered"):
                    await world.phone(number).scan(codes[status])
                await world.at(session_id, status)
            for session_id in held.values():
                await _taken_over(world, session_id)
            before = {status: len(await _history(world, one)) for status, one in held.items()}
            late.go_on()
            await world.phone(9).scan(codes["qr_rendered"])  # the late process hears of it, and wants to move
            for status, session_id in held.items():
                entries = await _written_since(world, session_id, before[status])
                assert {(one.actor, one.outcome) for one in entries} == {("process-late", "lost")}, status
                assert await world.status(session_id) == status
                # what was decided before may be kept by anybody
                assert len(await world.saved(status)) == (status == "session_saved")


async def _taken_over(world: World, session_id: SessionId) -> None:
    db = world.places.of(session_id.user_id)

    async def taken() -> bool:
        answer = await db.claim_one(Attempt.ingest, session_id.key, by="new", lease=600.0)
        return isinstance(answer, Claim)

    await until(taken, lambda: f"the lease of {session_id} is over")


async def _history(world: World, session_id: SessionId) -> list[Any]:
    """The oldest first."""
    entries = await world.places.of(session_id.user_id).history(Attempt, session_id.key)
    return sorted(entries, key=lambda one: one.at)


async def _written_since(world: World, session_id: SessionId, number: int) -> list[Any]:
    async def wrote() -> bool:
        return len(await _history(world, session_id)) > number

    await until(wrote, lambda: f"the late process has written to {session_id}")
    return (await _history(world, session_id))[number:]
