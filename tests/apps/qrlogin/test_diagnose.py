"""Diagnostics: a healthy user, what can be wrong with one, and what cleaning up does and leaves (C6)."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from redis.asyncio import Redis

from qrlogin.cli import main
from qrlogin.diagnose import report
from qrlogin.lifecycle import Attempt
from raceproof.testing import valkey
from tests.apps.qrlogin.conftest import USER, World, opened


async def told(world: World, capsys: pytest.CaptureFixture[str], *, cleanup: bool = False) -> tuple[int, Any]:
    code = await report(world.settings, USER, cleanup, "json")
    return code, json.loads(capsys.readouterr().out)[0]


async def test_a_user_who_logs_in_is_healthy(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    session_id = await world.start()
    await world.code(session_id)
    code, health = await told(world, capsys)
    assert code == 0
    assert health["healthy"]
    assert (health["active_session"], health["status"]) == (str(session_id), "qr_rendered")
    assert await world.manager.check_session_health(USER) == health
    assert await report(world.settings, None, False, "table") == 0
    assert "problem" not in capsys.readouterr().out


async def test_cleaning_up_removes_what_has_ended_and_leaves_what_is_open(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    done, superseded, active = await world.log_in(), await world.start(), await world.start()
    await world.code(active)
    _, health = await told(world, capsys)
    assert health["warnings"]
    code, health = await told(world, capsys, cleanup=True)
    assert code == 0
    assert [one["session_id"] for one in health["sessions"]] == [str(active)]
    assert await world.places.row(done) is None
    assert await world.places.row(superseded) is None
    assert len(await world.saved()) == 1  # sessions are not attempts
    await world.phone().scan(await world.code(active))
    assert await world.ended(active) == "done"
    _, health = await told(world, capsys, cleanup=True)
    assert health["sessions"] == []
    await world.log_in()


async def test_what_somebody_broke_by_hand_is_found_and_repaired(
    redis_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(redis_store, tmp_path, ingest=False) as world, Redis.from_url(redis_store) as cli:
        stray, active = await world.start(), await world.start()
        await cli.hset(f"tg:qr:session:{stray}", "status", "scanned")  # two are open
        await cli.persist(f"tg:qr:session:{active}")
        await cli.zadd(f"tg:qr:sessions_zset:{USER}", {f"{USER}:1:aaaaaaaa": 1})
        code, health = await told(world, capsys)
        assert code == 6
        problems = " / ".join(one["problem"] for one in health["issues"])
        assert f"{stray} is open (scanned) and not the active one" in problems
        assert f"tg:qr:session:{active} has no time to live" in problems
        assert all(f"diagnose {USER} --cleanup" in one["repair"] for one in health["issues"])
        assert await report(world.settings, None, False, "json") == 6
        assert "keys without one" in capsys.readouterr().out
        code, health = await told(world, capsys, cleanup=True)
        assert code == 0, health
        assert [one["session_id"] for one in health["sessions"]] == [str(active)]
        assert await cli.ttl(f"tg:qr:session:{active}") > 0
        await cli.delete(f"tg:qr:session:{active}")
        code, health = await told(world, capsys)
        assert code == 6
        assert "of which nothing is left" in health["issues"][0]["problem"]
        assert (await told(world, capsys, cleanup=True))[0] == 0


async def test_an_attempt_that_nobody_looks_after_is_told_with_what_to_do(
    redis_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(redis_store, tmp_path, ingest=False) as world, Redis.from_url(redis_store) as cli:
        session_id = await world.start()
        row = f"tg:qr:session:{session_id}"
        await cli.hset(row, "created_at", str(float(await cli.hget(row, "created_at") or 0) - 60))
        code, health = await told(world, capsys)
        assert code == 6
        assert "no ingest process has" in health["issues"][0]["problem"]
        assert "qrlogin ingest" in health["issues"][0]["repair"]
        assert await report(world.settings, None, False, "json") == 6
        assert (await world.places.of(USER).move(Attempt.fail, session_id.key)).won


def test_the_command_line_tells_what_is_wrong_with_settings_and_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QRLOGIN_FOLDER", str(tmp_path))
    run = CliRunner().invoke
    nothing = run(main, ["diagnose"])
    assert nothing.exit_code == 5
    assert "there is no database" in nothing.output
    assert not (tmp_path / "qrlogin.db").exists()
    assert run(main, ["sessions"]).exit_code == 0
    assert run(main, ["diagnose"]).exit_code == 0
    assert run(main, ["sessions"]).exit_code == 0
    assert run(main, ["sessions", "--revoke", "a:1:aaaaaaaa", "--reason", "lost"]).exit_code == 4
    assert run(main, ["ingest"]).exit_code == 1
    monkeypatch.setenv("QRLOGIN_STORE", "redis://127.0.0.1:1/0")
    assert run(main, ["diagnose", USER]).exit_code == 5
    monkeypatch.setenv("QRLOGIN_HOST", "0.0.0.0")
    told = run(main, ["serve"])
    assert told.exit_code == 2
    assert "QRLOGIN_TOKEN" in told.output


async def test_a_server_that_may_drop_keys_when_it_is_full_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every key has a time to live, so a policy for volatile keys drops open logins first."""
    with valkey(maxmemory="100mb", maxmemory_policy="volatile-lru") as server:
        async with opened(server.url, tmp_path, ingest=False) as world:
            assert await report(world.settings, None, False, "json") == 6
    [found] = [one for one in json.loads(capsys.readouterr().out) if one["result"] == "problem"]
    assert found["check"] == "eviction"
    assert "volatile-lru" in found["evidence"]
