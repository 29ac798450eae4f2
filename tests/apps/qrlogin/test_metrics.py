"""The note's figures, in each process that counts them (C9)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from prometheus_client import generate_latest

from appkit.loops import Loops
from qrlogin.metrics import Metrics
from qrlogin.service import running
from tests.apps.qrlogin.conftest import USER, World, free_port, opened, until


@contextmanager
def ingest(world: World, port: int, name: str = "measured") -> Iterator["subprocess.Popen[str]"]:
    environment = {
        **os.environ,
        "QRLOGIN_FOLDER": str(world.settings.folder),
        "QRLOGIN_STORE": world.settings.store,
        "QRLOGIN_SIMULATED": f"127.0.0.1:{world.telegram.port}",
        "QRLOGIN_METRICS_PORT": str(port),
        "QRLOGIN_INSTANCE": name,
    }
    command = [sys.executable, "-m", "qrlogin", "ingest"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_an_ingest_process_tells_its_own_health_and_figures(redis_store: str, tmp_path: Path) -> None:
    port = free_port()
    async with opened(redis_store, tmp_path, ingest=False) as world:
        with ingest(world, port):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                await world.log_in()
                expired = await world.manager.create_session("expires", 1)
                assert expired

                async def measured() -> bool:
                    told = (await client.get("/metrics")).text
                    return all(
                        line in told
                        for line in (
                            'qr_login_attempts_total{status="qr_rendered"} 2.0',
                            'qr_login_attempts_total{status="scanned"} 1.0',
                            'qr_login_attempts_total{status="authorized"} 1.0',
                            'qr_login_attempts_total{status="done"} 1.0',
                            'qr_session_duration_seconds_count{status="success"} 1.0',
                            'qr_session_duration_seconds_count{status="failed"} 1.0',
                            'qr_terminal_sessions_total{reason="expired"} 1.0',
                            "qr_active_sessions 0.0",
                        )
                    )

                await until(measured, lambda: "the figures of the login are there")
                health = await client.get("/health")
                assert health.status_code == 200
                assert "ingest" in health.json()["loops"]
            with ingest(world, port, "second") as second:
                _, said = second.communicate(timeout=60)
                assert second.returncode == 1
                assert "QRLOGIN_METRICS_PORT" in said
                assert "Traceback" not in said


async def test_an_instance_without_ingest_knows_how_many_attempts_are_open(store: str, tmp_path: Path) -> None:
    metrics = Metrics()
    async with opened(store, tmp_path, ingest=False) as world:
        await world.start("ann")
        await world.start("bob")
        async with running(world.settings, None, Loops(), metrics):

            async def counted() -> bool:
                return "qr_active_sessions 2.0" in generate_latest(metrics.registry).decode()

            await until(counted, lambda: "the open attempts are counted")


async def test_what_a_user_ended_has_a_duration_too(store: str, tmp_path: Path) -> None:
    metrics = Metrics()
    async with opened(store, tmp_path, ingest=False) as world:
        world.manager._metrics = metrics
        await world.start()
        cancelled = await world.start()
        assert (await world.manager.cancel(cancelled)).won
    told = generate_latest(metrics.registry).decode()
    assert 'qr_terminal_sessions_total{reason="superseded"} 1.0' in told
    assert 'qr_session_duration_seconds_count{status="failed"} 2.0' in told
    assert USER not in told
