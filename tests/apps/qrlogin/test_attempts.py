"""One attempt for a user: starts that race, ends that stay, and an ingest that is late (C1, C2, C3, C5)."""

import asyncio
import re
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from qrlogin.identity import SESSION_ID, SessionId
from qrlogin.lifecycle import ENDED, OPEN, Attempt, attempts
from raceproof import Claim, Refused, Started
from tests.apps.qrlogin.conftest import USER, World, opened, until

NOTES_SCRIPT = """
local old = redis.call('GET', KEYS[1])
if old and old ~= ARGV[1] then
  redis.call('HSET', 'tg:qr:session:'..old, 'status', 'superseded', 'superseded_by', ARGV[1], 'superseded_at', ARGV[2])
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
redis.call('HSETNX', KEYS[2], 'session_id', ARGV[1])
redis.call('HSET', KEYS[2], 'status', 'pending', 'created_at', ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
return old
"""


async def test_a_start_makes_an_id_as_the_note_says_and_the_active_attempt(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        made = await world.manager.create_session(USER)
        assert re.fullmatch(SESSION_ID, made)
        assert re.fullmatch(rf"{USER}:[0-9]+:[a-z0-9]{{8}}", made)
        active = await world.manager.get_active_session_for_user(USER)
        assert active is not None
        assert (active["session_id"], active["status"]) == (made, "pending")
        assert await world.manager.get_active_session_for_user("another") is None


async def test_a_start_supersedes_the_open_one_and_names_its_successor(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        first, second = await world.start(), await world.start()
        row = await world.places.row(first)
        assert row is not None
        assert row["status"] == "superseded"
        assert row["superseded_at"]
        assert row["superseded_by"] == str(second)
        assert await world.status(second) == "pending"


async def test_a_start_after_a_login_leaves_the_login_done(world: World) -> None:
    first = await world.log_in()
    second = await world.start()
    assert await world.status(first) == "done"
    await world.at(second, "pending", "qr_rendered")
    [saved] = await world.saved()
    assert saved["status"] == "current"


async def test_the_note_s_own_script_turns_a_finished_login_into_a_superseded_one(redis_store: str) -> None:
    """The control: what this application must not do."""
    async with Redis.from_url(redis_store, decode_responses=True) as client:

        def keys(name: str) -> list[str]:
            return ["tg:qr:active:1", f"tg:qr:session:{name}", "tg:qr:sessions_zset:1"]

        await client.eval(NOTES_SCRIPT, 3, *keys("one"), "one", "1", "900")
        await client.hset("tg:qr:session:one", "status", "done")
        await client.eval(NOTES_SCRIPT, 3, *keys("two"), "two", "2", "900")
        assert await client.hget("tg:qr:session:one", "status") == "superseded"
        await client.hset("tg:qr:session:two", "status", "scanned")
        await client.eval(NOTES_SCRIPT, 3, *keys("two"), "two", "3", "900")
        assert await client.hget("tg:qr:session:two", "status") == "pending"
        assert await client.ttl("tg:qr:session:two") == -1


async def test_the_same_start_again_changes_nothing(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        session_id = await world.start()
        db = world.places.of(USER)
        (await db.move(Attempt.render, session_id.key)).must()
        again = await db.start_attempt(attempts, USER, session_id.key)
        assert isinstance(again, Started)
        assert again.replayed
        assert await world.status(session_id) == "qr_rendered"


async def test_a_superseded_ingest_that_writes_late_is_refused_whatever_it_writes(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        for status in OPEN:
            session_id = await world.start()
            db = world.places.of(USER)
            for step in ("render", "scan", "authorize", "save")[: OPEN.index(status)]:
                (await db.move(Attempt.spec.moves[step], session_id.key)).must()
            claim = await db.claim_one(Attempt.ingest, session_id.key, by="late")
            assert isinstance(claim, Claim)
            await world.start()
            for move in Attempt.spec.moves.values():
                if move.name != "supersede":
                    answer = await db.move(move, claim)
                    assert not answer.reached, (status, move.name)
            assert await world.status(session_id) == "superseded"
            [renewed] = await world.places.store.renew([claim])
            assert not renewed.reached


async def test_an_attempt_that_has_ended_never_changes(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        ends: dict[str, list[str]] = {
            "done": ["render", "scan", "authorize", "save", "finish"],
            "expired": ["expire"],
            "failed": ["fail"],
            "superseded": ["supersede"],
        }
        for status, steps in ends.items():
            session_id = await world.start(f"user-{status}")
            db = world.places.of(session_id.user_id)
            for step in steps:
                (await db.move(Attempt.spec.moves[step], session_id.key)).must()
            for move in Attempt.spec.moves.values():
                answer = await db.move(move, session_id.key)
                assert isinstance(answer, Refused) or answer.outcome == "already", (status, move.name)
            await world.start(session_id.user_id)
            assert await world.status(session_id) == status
        assert set(ends) == set(ENDED)


async def test_expiry_and_scan_at_the_same_moment_have_one_winner(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        for number in range(20):
            session_id = await world.start(f"user-{number}")
            db = world.places.of(session_id.user_id)
            (await db.move(Attempt.render, session_id.key)).must()
            told = await asyncio.gather(
                db.move(Attempt.scan, session_id.key, by="phone"),
                db.move(Attempt.expire, session_id.key, by="clock"),
            )
            assert sum(answer.won for answer in told) == 1
            winner = told[0].won
            assert await world.status(session_id) == ("scanned" if winner else "expired")


async def test_a_start_over_a_login_in_every_open_status_leaves_no_login_behind(world: World) -> None:
    """The first login is superseded while it waits for its password; its client is logged out again."""
    first = await world.start()
    await world.phone(7, "right").scan(await world.code(first))
    await world.asks_for_password(first)
    second = await world.start()
    await world.give_password(first, "right")
    await world.phone(8).scan(await world.code(second))
    assert await world.ended(second) == "done"
    assert await world.status(first) == "superseded"

    async def alone() -> bool:
        return world.telegram.logged_in() == [8]

    await until(alone, lambda: f"one login is left, not {world.telegram.logged_in()}")
    [saved] = await world.saved()
    assert saved["session_id"] == str(second)


async def test_two_ingest_workers_never_have_the_same_attempt(store: str, tmp_path: Path) -> None:
    async with (
        opened(store, tmp_path, instance="one") as one,
        opened(store, tmp_path, instance="two", telegram=one.telegram) as two,
    ):
        started = [await (one, two)[number % 2].start(f"user-{number}") for number in range(20)]
        for number, session_id in enumerate(started):
            await one.phone(number + 1).scan(await one.code(session_id))
        assert [await one.ended(session_id) for session_id in started] == ["done"] * 20
        assert len(one.telegram.devices) == 20  # a client for each login, and none twice
        assert sorted(one.telegram.logged_in()) == list(range(1, 21))


async def test_what_a_holder_that_was_replaced_shows_is_not_seen(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, ingest=False) as world:
        session_id = await world.start()
        db, beside = world.places.of(USER), world.places.beside
        (await db.move(Attempt.render, session_id.key)).must()
        late = await db.claim_one(Attempt.ingest, session_id.key, by="late", lease=0.01)
        assert isinstance(late, Claim)
        found: Any = None

        async def taken_over() -> bool:
            nonlocal found
            found = await db.claim_one(Attempt.ingest, session_id.key, by="new")
            return isinstance(found, Claim)

        await until(taken_over, lambda: "the lease is over")
        for claim, url in ((found, "tg://login?token=new"), (late, "tg://login?token=late")):
            sealed = world.places.vault.seal(f"shown {session_id}", f'{{"url": "{url}", "expires": 9e9, "version": 1}}')
            await beside.show(session_id, claim.fence, sealed.text, 30)
        assert await world.code(session_id) == "tg://login?token=new"


async def test_an_attempt_whose_starter_died_is_found_by_ingest_and_by_whoever_looks(
    redis_store: str, tmp_path: Path
) -> None:
    """Killed between the start and the announcement: the announcement before it is what is left."""
    async with opened(redis_store, tmp_path) as world:
        session_id = SessionId.made_for(USER)
        columns = {"session_id": str(session_id), "ttl_seconds": 900}
        await world.places.store.start_attempt(attempts, USER, session_id.key, columns=columns)
        await world.places.beside.announce(session_id, 0.5)
        await world.at(session_id, "qr_rendered")
