"""The note's classes and script, called as the note calls them (C6)."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from qrlogin.identity import SESSION_ID, AccountNeeded, SessionId
from qrlogin.note import ImprovedQRProcessor, QRDiagnostics, QRSessionManager, url_of
from tests.apps.qrlogin.conftest import USER, opened

SCRIPT = Path(__file__).parents[3] / "scripts" / "qr_diagnostics.py"


@pytest.fixture(params=[False, True], ids=["bytes", "texts"])
def redis_client(redis_store: str, request: pytest.FixtureRequest) -> "Iterator[redis.Redis]":
    with redis.Redis.from_url(redis_store, decode_responses=request.param) as client:
        yield client


def text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def test_a_session_is_created_and_examined_as_in_the_note(redis_client: "redis.Redis") -> None:
    manager = QRSessionManager(redis_client)
    first = manager.create_session(USER, ttl_seconds=900)
    session_id = manager.create_session(int(USER))
    assert re.fullmatch(SESSION_ID, session_id)
    assert text(redis_client.get(f"tg:qr:active:{USER}")) == session_id
    assert text(redis_client.hget(f"tg:qr:session:{first}", "status")) == "superseded"
    active = ImprovedQRProcessor(redis_client).get_active_session_for_user(USER)
    assert active is not None
    assert (active["session_id"], active["status"]) == (session_id, "pending")
    diag = QRDiagnostics(redis_client)
    health = diag.check_session_health(USER)
    assert health["healthy"]
    assert health["active_session"] == session_id
    assert any(first in line for line in diag.cleanup(USER))
    assert redis_client.exists(f"tg:qr:session:{first}") == 0
    with pytest.raises(AccountNeeded):
        manager.create_session("ann")


async def test_the_note_s_classes_work_where_an_event_loop_runs(redis_store: str) -> None:
    with redis.Redis.from_url(redis_store) as client:
        session_id = QRSessionManager(client).create_session(USER)
        assert QRDiagnostics(client).check_session_health(USER)["active_session"] == session_id


async def test_the_note_s_processor_brings_the_active_attempt_to_its_end(
    redis_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(redis_store, tmp_path, ingest=False, any_account=False) as world:
        monkeypatch.setenv("QRLOGIN_FOLDER", str(tmp_path))
        monkeypatch.setenv("QRLOGIN_SIMULATED", f"127.0.0.1:{world.telegram.port}")
        with redis.Redis.from_url(redis_store) as client:
            processor = ImprovedQRProcessor(client)
            assert not await asyncio.to_thread(processor.process_qr_session, USER)  # nothing is active
            session_id = SessionId.parsed(QRSessionManager(client).create_session(USER))
            ended: list[bool] = []
            working = threading.Thread(target=lambda: ended.append(processor.process_qr_session(USER)))
            working.start()
            await world.phone(int(USER)).scan(await world.code(session_id))
            await asyncio.to_thread(working.join)
            assert ended == [True]
            assert await world.status(session_id) == "done"
            assert await world.places.saving.session_of(USER) is not None
            assert not await asyncio.to_thread(processor.process_qr_session, USER)  # it has ended


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"host": "db", "port": 7000, "db": 3}, "redis://db:7000/3"),
        ({"host": "::1"}, "redis://[::1]:6379/0"),
        ({"username": "u/x", "password": "p@:"}, "redis://u%2Fx:p%40%3A@localhost:6379/0"),
        ({"ssl": True, "ssl_ca_certs": "/ca.pem"}, "rediss://localhost:6379/0?ssl_ca_certs=%2Fca.pem"),
        ({"unix_socket_path": "/run/redis.sock", "db": 2}, "unix:///run/redis.sock?db=2"),
    ],
)
def test_the_server_of_a_client_is_found(given: dict[str, object], url: str) -> None:
    found = url_of(redis.Redis(**given))  # type: ignore[arg-type]
    assert url in (found, found.replace("&ssl_cert_reqs=required", "").replace("ssl_cert_reqs=required&", ""))


def test_something_else_than_a_client_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a redis\.Redis, got str"):
        QRSessionManager("redis://localhost")  # type: ignore[arg-type]


def run(url: str, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "QRLOGIN_STORE": url}
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_the_note_s_script_diagnoses_and_cleans_up(redis_store: str) -> None:
    with redis.Redis.from_url(redis_store) as client:
        manager = QRSessionManager(client)
        first, second = manager.create_session(USER), manager.create_session(USER)
        told = run(redis_store, USER)
        assert told.returncode == 0
        assert f"user     {USER}: healthy" in told.stdout
        assert f"active   {second} pending" in told.stdout
        cleaned = run(redis_store, USER, "--cleanup")
        assert f"{first}: removed" in cleaned.stderr
        assert first not in cleaned.stdout
        client.persist(f"tg:qr:session:{second}")
        assert run(redis_store, USER).returncode == 6
    away = run("redis://127.0.0.1:1/0", USER)
    assert away.returncode == 5
    assert "Traceback" not in away.stderr
