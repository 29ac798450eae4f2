"""Servers whose settings are in a file, so that a pasted repair can change them, and one that follows another."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raceproof.testing import PostgresServer, ServerFailed, ValkeyServer
from raceproof.testing.binaries import find_postgres, find_valkey
from raceproof.testing.servers import DEADLINE, Setting, wait_until

_QUIET: dict[str, Setting] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
}


class PlainPostgres(PostgresServer):
    """A PostgreSQL as it is installed: on its command line there is nothing that a promise rests on."""

    def __init__(self) -> None:
        super().__init__(find_postgres(), {})

    def _command(self) -> list[str]:
        self._settings = _QUIET
        return super()._command()

    def set(self, name: str, value: str) -> None:
        """Write a setting into its configuration."""
        self.psql(f"ALTER SYSTEM SET {name} = {value}")
        self.reload(name, value.strip("'"))

    def reset(self, *names: str) -> None:
        """Everything as it was installed; to be run whatever a test has planted."""
        quiet = "postgresql://postgres@127.0.0.1:{}/postgres?options=-c%20default_transaction_read_only%3Doff"
        for name in names:
            before = self.psql(f"SELECT boot_val FROM pg_settings WHERE name = '{name}'")
            self.psql(f"ALTER SYSTEM RESET {name}", quiet.format(self.port))
            self.reload(name, before)

    def reload(self, name: str, value: str) -> None:
        """Read the configuration again, and wait until new sessions know of it."""
        self.psql("SELECT pg_reload_conf()")
        if not wait_until(lambda: self.psql(f"SHOW {name}") == value):
            raise ServerFailed(f"{name} did not become {value}")

    @contextmanager
    def followed_by(self, program: str, *options: str) -> Iterator[None]:
        """Within the block a client program of PostgreSQL receives what is written."""
        source = f"--dbname=host=127.0.0.1 port={self.port} user=postgres"
        process = self._launch([str(self.bin / program), source, *options])
        try:
            known = f"SELECT count(*) FROM pg_stat_replication WHERE application_name = '{program}'"
            if not wait_until(lambda: self.psql(known) == "1"):
                raise self._failed(f"is not followed by {program}")
            yield
        finally:
            process.kill()
            process.wait()

    def paste(self, text: str, url: str) -> None:
        """Statement by statement, as a person pastes it into psql."""
        for line in text.split("\n"):
            self.psql(line, url)


class Standby(PostgresServer):
    """A copy of another server, which it follows."""

    def __init__(self, primary: PostgresServer) -> None:
        self._primary = primary
        super().__init__(find_postgres(), {})

    def _prepare(self) -> None:
        source = f"host=127.0.0.1 port={self._primary.port} user=postgres application_name=standby"
        copy = [str(self.bin / "pg_basebackup"), "--pgdata=data", f"--dbname={source}"]
        process = self._launch(
            [*copy, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        )
        if process.wait(DEADLINE):
            raise self._failed("could not be copied")

    def _ready(self) -> bool:
        return "ready to accept read-only connections" in self._said()


class PlainValkey(ValkeyServer):
    """A Valkey with its settings in a file, which CONFIG REWRITE changes."""

    def __init__(self, **config: Setting) -> None:
        super().__init__(find_valkey(), config)

    def _prepare(self) -> None:
        super()._prepare()
        lines = []
        for name, value in self._config.items():
            told: Any = ("yes" if value else "no") if isinstance(value, bool) else value
            lines.append(f'{name.replace("_", "-")} "{told}"')
        self._file.write_text("\n".join(lines) + "\n")

    @property
    def _file(self) -> Path:
        return self._folder / "valkey.conf"

    def _command(self) -> list[str]:
        return [
            str(self._binary),
            str(self._file),
            "--port",
            str(self.port),
            "--dir",
            str(self._folder / "data"),
        ]
