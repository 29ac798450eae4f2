"""Real servers for a test run, a benchmark or a demo, from packages alone.

    with postgres() as server:
        url = server.database()

Each has a free port on 127.0.0.1 and its data in a temporary folder, and can be killed, paused and restarted. It dies
with the thread that started it (on Linux), so a killed run leaves no orphans: start servers in a thread that lasts.
Not promised: that what a server acknowledged survives a power cut of the machine; kill() ends processes, no disks.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Self

from raceproof.testing import launch
from raceproof.testing.binaries import (
    ServerMissing,
    find_nats,
    find_postgres,
    find_valkey,
    shared_folder,
    version_of,
    within_reach,
)

DEADLINE = 60.0
"""Seconds that a server has to start or stop. It needs less than one; a busy machine may need more."""

NOBODY = 65534
"""The user that PostgreSQL runs as when we are root, which it refuses."""

Setting = str | int | float | bool


class ServerFailed(RuntimeError):
    """A server did not start, or a command of it failed; the message has the end of its log."""


def postgres(major: int | None = None, **settings: Setting) -> "PostgresServer":
    """Start PostgreSQL with an empty cluster; settings are those of postgresql.conf."""
    return PostgresServer(find_postgres(major), settings)


def valkey(**config: Setting) -> "ValkeyServer":
    """Start Valkey; config is that of valkey.conf, with underscores for hyphens."""
    return ValkeyServer(find_valkey(), config)


def mqtt(**config: Setting) -> "MqttServer":
    """Start an MQTT 3.1.1 broker, which is NATS with its listener for MQTT; config goes into its part `mqtt`."""
    return MqttServer(find_nats(), config)


class Server(ABC):
    """A running server. Leaving the `with` block (or `close()`) stops it and removes its data."""

    _name: ClassVar[str]
    _stop_signal: ClassVar[signal.Signals]
    _orphan_signal: ClassVar[signal.Signals]

    def __init__(self, binary: Path, user: int) -> None:
        self.version = version_of(binary)
        self.port = 0
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix=f"raceproof-{self._name}-", dir=shared_folder()))
        self._log = self._folder / "log"
        self._log.touch()
        self._log_start = 0
        if user >= 0:
            os.chown(self._folder, user, user)
        try:
            self._prepare()
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    @abstractmethod
    def url(self) -> str:
        """Where to connect."""

    @property
    def pid(self) -> int:
        """The process id; of PostgreSQL's postmaster."""
        if self._process is None:
            raise ServerFailed(f"{self._name} is not running: restart() it first")
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL for all of its processes at the same moment, so that none can react to the death of another."""
        if self._process is None:
            return
        family = self._freeze()
        for pid in family:
            _signal(pid, signal.SIGKILL)
        self._process.wait(DEADLINE)
        self._process = None
        self._until(lambda: all(_state(pid) == "Z" for pid in family), "did not die")

    def stop(self) -> None:
        """Shut down in good order. The data stays, for restart()."""
        if self._process is None:
            return
        self.resume()
        self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"did not stop within {DEADLINE:g} s and was killed") from None
        self._process = None

    def restart(self) -> None:
        """Start again after kill() or stop(), or stop and start: same port, same data."""
        self.stop()
        self._start()

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing until resume()."""
        self._freeze()

    def resume(self) -> None:
        """SIGCONT, after pause()."""
        for pid in (*_children(self.pid), self.pid):
            _signal(pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop and remove the data."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def log(self, lines: int = 20) -> str:
        """The last lines of the server's log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @abstractmethod
    def _prepare(self) -> None:
        """Make the data folder, before the first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What to run, to listen on `self.port`."""

    @abstractmethod
    def _ready(self) -> bool:
        """Whether it takes connections."""

    def _freeze(self) -> list[int]:
        """Stop the server, which then starts no more processes, and those that it has; returns them all."""
        # One by one, for PostgreSQL's backends leave its process group.
        family = [self.pid]
        _signal(self.pid, signal.SIGSTOP)
        self._until(lambda: _state(self.pid) in "TtZ", "did not pause")
        family += _children(self.pid)
        for pid in family:
            _signal(pid, signal.SIGSTOP)
        self._until(lambda: all(_state(pid) in "TtZ" for pid in family), "did not pause")
        return family

    def _start(self) -> None:
        deadline = time.monotonic() + DEADLINE
        choose = not self.port
        while True:
            if choose:
                self.port = _free_port()
            self._log_start = self._log.stat().st_size
            self._process = self._launch(self._command())
            while self._process.poll() is None:
                if self._ready():
                    return
                if time.monotonic() > deadline:
                    self.kill()
                    raise self._failed(f"was not ready after {DEADLINE:g} s")
                time.sleep(0.01)
            status, self._process = self._process.returncode, None
            # Somebody else may have taken the port since we looked; anything else is for the caller to see.
            if "address already in use" not in self._said().lower():
                raise self._failed(f"ended with status {status} while starting")
            if time.monotonic() > deadline:
                raise self._failed(f"found port {self.port} taken for {DEADLINE:g} s")
            time.sleep(0.1)

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", launch.__file__]
        launcher += [str(number) for number in (os.getpid(), int(self._orphan_signal), self._user)]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                launcher + command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=_environment(),
                start_new_session=True,  # so that Ctrl-C reaches the run, which then stops its servers
            )

    def _said(self) -> str:
        """The log since the last start."""
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        if not wait_until(condition):
            raise self._failed(f"{otherwise} within {DEADLINE:g} s")

    def _failed(self, what: str) -> ServerFailed:
        return ServerFailed(f"{self._name} {self.version} {what}; the end of its log:\n{self.log()}")


class PostgresServer(Server):
    """A PostgreSQL cluster of its own; `bin` has psql and pgbench too."""

    _name = "postgres"
    _stop_signal = signal.SIGINT  # "fast": ends sessions and writes a checkpoint
    _orphan_signal = signal.SIGQUIT  # "immediate": no checkpoint, but nothing stays behind in shared memory

    def __init__(self, folder: Path, settings: dict[str, Setting]) -> None:
        user = NOBODY if os.geteuid() == 0 else -1
        self.bin = within_reach(folder) if user >= 0 else folder
        defaults: dict[str, Setting] = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 200,
            "fsync": True,
            "synchronous_commit": True,
            "log_line_prefix": "%m [%p] ",
        }
        self._settings = defaults | settings
        super().__init__(self.bin / "postgres", user)

    @property
    def url(self) -> str:
        return self._url("postgres")

    def database(self, name: str | None = None) -> str:
        """Create an empty database and return its URL."""
        name = name or f"test_{secrets.token_hex(6)}"
        quoted = name.replace('"', '""')
        self.psql(f'CREATE DATABASE "{quoted}"')
        return self._url(name)

    def psql(self, statement: str, url: str | None = None) -> str:
        """Run SQL without a driver, in the database `postgres` or at the URL; returns the rows as bare text."""
        program = self.bin / "psql"
        if not program.exists():
            raise ServerMissing(f"no psql in {self.bin}: install PostgreSQL's client programs as well")
        options = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        return self._run([str(program), *options, "--command", statement, url or self.url]).strip()

    def _url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _prepare(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        process = self._launch([str(self.bin / "initdb"), "--pgdata=data", *options])
        try:
            status = process.wait(DEADLINE)
        finally:
            process.kill()
            process.wait()
        if status:
            raise self._failed("could not be initialised")

    def _command(self) -> list[str]:
        command = [str(self.bin / "postgres"), "-D", "data", "-c", f"port={self.port}"]
        for name, value in self._settings.items():
            told = ("on" if value else "off") if isinstance(value, bool) else value
            command += ["-c", f"{name}={told}"]
        return command

    def _ready(self) -> bool:
        # The file is what pg_ctl looks at: first line the process, eighth "ready". One left by a crash names another.
        try:
            lines = (self._folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=_environment(), timeout=DEADLINE)
        if done.returncode:
            raise ServerFailed(f"{Path(command[0]).name} failed: {done.stderr.strip()}")
        return done.stdout


class ValkeyServer(Server):
    """A Valkey of its own, or a Redis, with an append-only file."""

    _name = "valkey"
    _stop_signal = signal.SIGTERM
    _orphan_signal = signal.SIGKILL

    def __init__(self, binary: Path, config: dict[str, Setting]) -> None:
        self._binary = binary
        defaults: dict[str, Setting] = {"bind": "127.0.0.1", "save": "", "appendonly": True, "appendfsync": "everysec"}
        self._config = defaults | config
        super().__init__(binary, user=-1)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _prepare(self) -> None:
        (self._folder / "data").mkdir()

    def _command(self) -> list[str]:
        command = [str(self._binary), "--port", str(self.port), "--dir", "data"]
        for name, value in self._config.items():
            told = ("yes" if value else "no") if isinstance(value, bool) else str(value)
            command += [f"--{name.replace('_', '-')}", told]
        return command

    def _ready(self) -> bool:
        return "Ready to accept connections" in self._said()


class MqttServer(Server):
    """An MQTT broker of its own: QoS 0, 1 and 2, retained messages, last wills, sessions that outlive a restart."""

    _name = "nats"
    _stop_signal = signal.SIGTERM
    _orphan_signal = signal.SIGKILL

    def __init__(self, binary: Path, config: dict[str, Setting]) -> None:
        self._binary = binary
        self._config = {"ack_wait": "5s", "max_ack_pending": 1000} | config
        super().__init__(binary, user=-1)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def _prepare(self) -> None:
        (self._folder / "data").mkdir()

    def _command(self) -> list[str]:
        settings = "".join(f"  {name}: {value}\n" for name, value in self._config.items())
        (self._folder / "nats.conf").write_text(
            'host: "127.0.0.1"\nport: -1\nserver_name: raceproof\njetstream { store_dir: "data" }\n'
            f'mqtt {{\n  host: "127.0.0.1"\n  port: {self.port}\n{settings}}}\n'
        )
        return [str(self._binary), "--config", "nats.conf"]

    def _ready(self) -> bool:
        return "Server is ready" in self._said()


def wait_until(condition: Callable[[], bool]) -> bool:
    """Look again and again until the condition holds, and give up after the deadline; returns whether it does."""
    deadline = time.monotonic() + DEADLINE
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return holds


def _environment() -> dict[str, str]:
    """Ours without PGHOST, PGOPTIONS and the like, which would lead psql elsewhere; messages in English."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _children(parent: int) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _fields(int(folder.name))
        if fields and fields[1] == str(parent):
            yield int(folder.name)


def _state(pid: int) -> str:
    """The letter that ps shows: R running, S sleeping, T stopped, Z ended; Z too if there is no such process."""
    return (_fields(pid) or ["Z"])[0]


def _fields(pid: int) -> list[str]:
    """State, parent and so on: what follows the command's name, which may hold spaces, in /proc/PID/stat."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
