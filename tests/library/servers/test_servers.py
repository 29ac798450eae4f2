"""The servers that other tests stand on keep what they acknowledged, pause, come back, and leave nothing behind."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from raceproof.testing import PostgresServer, ServerFailed, ValkeyServer, postgres, servers, valkey


@pytest.fixture(scope="module", params=[16, 18])
def own_postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A PostgreSQL to maltreat."""
    with postgres(request.param) as server:
        assert server.version.startswith(f"{request.param}.")
        yield server


@pytest.fixture(scope="module")
def own_valkey() -> Iterator[ValkeyServer]:
    """A Valkey to maltreat; with everysec what it has answered may die with it."""
    with valkey(appendfsync="always") as server:
        yield server


def test_postgres_keeps_what_was_committed_before_kill_9(own_postgres: PostgresServer) -> None:
    """Committed rows are found again on the same URL; those of an open transaction are not."""
    url, pid = own_postgres.database(), own_postgres.pid
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept VALUES (1)")
        connection.commit()
        connection.execute("INSERT INTO kept VALUES (2)")
        own_postgres.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)

    own_postgres.restart()

    assert own_postgres.pid != pid
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT id FROM kept").fetchall() == [(1,)]


def test_valkey_keeps_what_it_acknowledged_before_kill_9(own_valkey: ValkeyServer) -> None:
    """With appendfsync always, the append-only file has every write that got a reply."""
    with redis.Redis.from_url(own_valkey.url, retry=Retry(NoBackoff(), 0)) as client:
        for number in range(100):
            client.set(f"kept:{number}", number)
        own_valkey.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()

        own_valkey.restart()

        assert [client.get(f"kept:{number}") for number in range(100)] == [b"%d" % n for n in range(100)]


def test_a_restart_in_good_order_keeps_everything(own_postgres: PostgresServer) -> None:
    """restart() of a running server stops it first."""
    url = own_postgres.database()
    own_postgres.psql("CREATE TABLE kept AS SELECT 7 AS id", url)

    own_postgres.restart()

    assert own_postgres.psql("SELECT id FROM kept", url) == "7"


def test_a_paused_postgres_answers_when_resumed(own_postgres: PostgresServer) -> None:
    """The backend of an open connection is paused as well, and the connection survives."""
    with psycopg.connect(own_postgres.url) as connection, ThreadPoolExecutor() as threads:
        own_postgres.pause()
        answer = threads.submit(connection.execute, "SELECT 1")
        with pytest.raises(TimeoutError):
            answer.result(timeout=0.1)

        own_postgres.resume()

        assert answer.result(timeout=servers.DEADLINE).fetchall() == [(1,)]


def test_a_paused_valkey_answers_when_resumed(own_valkey: ValkeyServer) -> None:
    """A request that was sent during the pause is not lost."""
    with socket.create_connection(("127.0.0.1", own_valkey.port)) as connection:
        own_valkey.pause()
        connection.sendall(b"PING\r\n")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(64)

        own_valkey.resume()

        connection.settimeout(servers.DEADLINE)
        assert connection.recv(64) == b"+PONG\r\n"


def test_a_paused_server_can_be_killed_and_restarted(own_valkey: ValkeyServer) -> None:
    """SIGKILL needs no SIGCONT."""
    own_valkey.pause()
    own_valkey.kill()
    with pytest.raises(ServerFailed, match=r"restart\(\)"):
        _ = own_valkey.pid
    own_valkey.restart()


def test_nothing_is_faster_than_in_production(postgres_server: PostgresServer) -> None:
    """A crash test on a server that does not sync would prove nothing."""
    shown = postgres_server.psql("SELECT current_setting('fsync'), current_setting('synchronous_commit')")
    assert shown == "on|on"


def test_only_this_machine_can_connect(postgres_server: PostgresServer, valkey_server: ValkeyServer) -> None:
    """Both trust whoever connects."""
    assert postgres_server.psql("SHOW listen_addresses") == "127.0.0.1"
    with redis.Redis.from_url(valkey_server.url) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_settings_reach_the_server() -> None:
    """True is `on` for PostgreSQL and `yes` for Valkey, and an underscore a hyphen."""
    with postgres(max_connections=17, log_lock_waits=True) as server:
        assert server.psql("SELECT current_setting('max_connections'), current_setting('log_lock_waits')") == "17|on"
    with (
        valkey(appendonly=False, maxmemory_policy="noeviction") as other,
        redis.Redis.from_url(other.url) as client,
    ):
        assert client.config_get("appendonly", "maxmemory-policy") == {
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
        }


def test_a_database_may_have_any_name(postgres_server: PostgresServer) -> None:
    """The name is quoted."""
    postgres_server.database('odd "name"')
    assert postgres_server.psql("SELECT 1 FROM pg_database WHERE datname = 'odd \"name\"'") == "1"


def test_a_failing_statement_says_why(postgres_server: PostgresServer) -> None:
    """psql's own message is in the error."""
    with pytest.raises(ServerFailed, match='relation "nowhere" does not exist'):
        postgres_server.psql("SELECT * FROM nowhere")


def test_a_server_that_cannot_start_shows_its_log_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is in the error, not in a file that is gone."""
    monkeypatch.setattr(servers, "shared_folder", lambda: tmp_path)
    with pytest.raises(ServerFailed, match=r"(?s)ended with status 1 while starting.*nonsense"):
        valkey(nonsense=1)
    assert not list(tmp_path.iterdir())


def test_a_port_that_was_taken_meanwhile_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking for a free port and listening on it somebody else may be quicker."""
    with socket.create_server(("127.0.0.1", 0)) as quicker:
        ports = [servers._free_port(), quicker.getsockname()[1]]
        monkeypatch.setattr(servers, "_free_port", ports.pop)
        with valkey() as server:
            assert server.port != quicker.getsockname()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a process to its parent")
@pytest.mark.parametrize("start", ["postgres", "valkey"])
def test_a_killed_run_leaves_no_server_behind(start: str) -> None:
    """SIGKILL gives a run no chance to clean up; the kernel does it."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    code = f"from raceproof.testing import {start}; print({start}().pid, flush=True); input()"
    try:
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"TMPDIR": folder},
        ) as run:
            assert run.stdout
            pids = [int(run.stdout.readline())]
            pids += servers._children(pids[0])
            assert all(servers._state(pid) != "Z" for pid in pids)
            run.kill()
        assert servers.wait_until(lambda: all(servers._state(pid) == "Z" for pid in pids))
    finally:
        shutil.rmtree(folder)
