"""The doors (A1, A5, A6, A11–A13): forged, garbled, oversized and replayed requests; modes; no database."""

import asyncio
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import text

from imagebot.measure.ground import message
from imagebot.services import open_service
from imagebot.settings import Settings
from imagebot.simulators.serving import simulated
from imagebot.simulators.trouble import Trouble
from imagebot.smoke import smoked
from imagebot.warm import Warm
from raceproof.testing import postgres
from tests.apps.imagebot.conftest import SECRETS, USER, WEBHOOK_SECRET, Process, World, until

HEADER = {"X-Telegram-Bot-Api-Secret-Token": WEBHOOK_SECRET}


async def post(
    process: Process,
    body: bytes,
    path: str = f"/webhook/{WEBHOOK_SECRET}",
    headers: dict[str, str] | None = None,
) -> int:
    async with (
        aiohttp.ClientSession() as http,
        http.post(process.url + path, data=io.BytesIO(body), headers=HEADER if headers is None else headers) as answer,
    ):
        return answer.status


async def kept(world: World) -> dict[str, Any]:
    async with world.opened() as database, database.transaction() as (connection, _):
        found = await connection.execute(text("SELECT event_id, status, source FROM telegram_updates"))
        return {row.event_id: row for row in found}


async def test_only_telegram_itself_gets_in_and_garbage_stays_out(world: World) -> None:
    one = await world.start("one")
    good = json.dumps(message(7, USER, "/start")).encode()
    assert await post(one, good, "/webhook/wrong-secret-wrong-secret") == 401
    assert await post(one, good, headers={}) == 401
    assert await post(one, good, headers={"X-Telegram-Bot-Api-Secret-Token": "canary"}) == 401
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"update_id": NaN}',
        b'{"update_id": 1, "update_id": 2}',
        b'{"update_id": "\\ud800"}',
        b'{"update_id": "a\\u0000"}',
        b'{"update_id": 99999999999999999999}',
        b'{"update_id": true}',
        b'{"message": {"from": {"id": "x"}}, "update_id": 5}',
        b"[" * 5000,
        b"\xff\xfe",
    ):
        assert await post(one, body) == 400, body[:40]
    assert await post(one, b'{"a": "' + b"x" * 1_100_000 + b'"}') == 413
    assert await world.call_back(one, "task", key="another-key-of-somebody") == 401
    assert await world.call_back(one, "task", later=-4000) == 401
    assert await post(one, b'{"data": {"taskId": "x"}}', "/kie-callback") == 401
    assert await kept(world) == {}
    assert [await post(one, good) for _ in range(3)] == [200, 200, 200]
    await until(lambda: world.texts(), "the menu") if USER in world.telegram.chats else None
    assert list(await kept(world)) == ["7"]
    async with aiohttp.ClientSession() as http:
        for path in ("/health", "/metrics"):
            async with http.get(one.url + path) as answer:
                told = await answer.text()
                assert answer.status == 200
                assert "canary" not in told
        async with http.get(f"{one.url}/webhook/x") as answer:
            assert answer.status == 405
    assert (await one.health())["queue"]["total_received"] == 1


async def test_a_passive_instance_answers_the_menu_and_keeps_the_rest_for_the_active_one(
    world: World,
) -> None:
    async with world.opened() as database:
        # somebody else has the lead for now
        from imagebot.controller import LEASE
        from raceproof import Lease, LeaseGranted

        leading = await database.store.acquire_lease(Lease(LEASE, seconds=600), by="somebody else")
        assert isinstance(leading, LeaseGranted)
        one = await world.start("one", first=False)
        world.telegram.webhook = f"{one.url}/webhook/{WEBHOOK_SECRET}"
        world.telegram.secret = WEBHOOK_SECRET
        await world.say("/start")
        await until(lambda: world.texts(), "the menu")
        await world.say("/new")
        await world.say("/status", 1002)
        await until(lambda: world.texts(1002), "the status of somebody else")
        assert (await one.health())["mode"] == "PASSIVE"
        assert sorted(row.status for row in (await kept(world)).values()) == ["done", "done", "received"]
        await database.store.release_lease(leading)
    await until(lambda: world.button("model|"), "the answer of the instance that is ACTIVE now")
    assert (await one.health())["mode"] == "ACTIVE"


async def test_without_a_database_it_is_passive_says_503_and_comes_back_by_itself(tmp_path: Path, warm: Warm) -> None:
    async with simulated(SECRETS, Trouble(), size=8) as simulators:
        with await asyncio.to_thread(postgres) as server:
            world = World(server.database(), simulators, tmp_path, warm)
            server.stop()
            one = await world.start("one", up=False)
            try:
                await until(lambda: one.lines("DB_UNAVAILABLE"), "the error")
                health = await one.health()
                assert (health["http"], health["mode"]) == (503, "PASSIVE")
                assert await post(one, json.dumps(message(7, USER, "/start")).encode()) == 503
                await asyncio.to_thread(server.restart)

                async def healthy() -> bool:
                    return bool((await one.health())["healthy"])

                await until(healthy, "health")
                assert await post(one, json.dumps(message(7, USER, "/start")).encode()) == 200
                assert await asyncio.to_thread(one.stop) == 0
            finally:
                one.kill()
            assert "canary" not in one.log


async def test_migrations_run_once_when_two_start_together_and_again_on_a_populated_database(
    database_url: str, tmp_path: Path
) -> None:
    settings = Settings(database_url=database_url, folder=tmp_path, instance="test", welcome=2000)

    async def opened(user: int) -> None:
        async with open_service(settings) as service:
            await service.accounts.language_of(user, user, "en")

    await asyncio.gather(opened(1), opened(2))
    await opened(3)
    async with open_service(settings) as service, service.transaction() as (connection, _):
        names = (await connection.execute(text("SELECT name FROM applied_migrations"))).scalars().all()
        users = (await connection.execute(text("SELECT count(*) FROM users"))).scalar_one()
    assert sum(name.startswith("0") for name in names) == len(set(names)) - 1 == 10
    assert "009_add_delivering_at" in names
    assert users == 3


def test_it_does_not_start_without_its_secrets() -> None:
    with pytest.raises(ValueError, match="TELEGRAM_BOT_TOKEN, WEBHOOK_SECRET, KIE_API_KEY"):
        Settings().must_be_complete()


async def test_the_code_is_as_truth_yaml_says(warm: Warm, tmp_path: Path) -> None:
    verify = warm.start("verify", ["verify", "-o", "json"], {}, tmp_path)
    assert await asyncio.to_thread(verify.wait) == 0, verify.log


async def test_the_smoke_scenarios_pass(warm: Warm) -> None:
    told = io.StringIO()
    with redirect_stdout(told):
        code = await smoked("sqlite", "json", warm)
    rows = json.loads(told.getvalue())
    assert [row["scenario"] for row in rows] == [f"S{number}" for number in range(9)]
    assert code == 0, rows
