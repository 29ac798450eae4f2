"""A primary and its synchronous standby, with a link between them that can be held: a commit then waits for the standby."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import psycopg

from raceproof.testing import PostgresServer
from raceproof.testing.binaries import find_postgres
from raceproof.testing.servers import DEADLINE, Setting, wait_until

NEVER: dict[str, Setting] = {"wal_sender_timeout": 0, "wal_receiver_timeout": 0}
"""A held link is silent for as long as a test needs; neither side hangs up because of that."""


class Link:
    """Passes bytes between primary and standby. While it is held, nothing of the primary's arrives any more."""

    def __init__(self, port: int) -> None:
        self._upstream = ("127.0.0.1", port)
        self._open = threading.Event()
        self._open.set()
        self._cut = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="link", daemon=True).start()

    def hold(self) -> None:
        """Let nothing pass from the primary to the standby."""
        self._open.clear()

    def release(self) -> None:
        """Pass on what was held, and everything after it."""
        self._open.set()

    def cut(self) -> None:
        """Drop what was held and close every connection."""
        self._cut = True
        self._open.set()
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                standby, _ = self._listener.accept()
                primary = socket.create_connection(self._upstream)
                self._sockets += [standby, primary]
                if self._cut:  # meanwhile, so nothing would close these
                    standby.close()
                    primary.close()
                    return
                for source, target, held in ((primary, standby, True), (standby, primary, False)):
                    threading.Thread(target=self._pump, args=(source, target, held), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, held: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if held:
                    self._open.wait()
                if self._cut:
                    return
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


class Standby(PostgresServer):
    """A copy of another server that follows it through a link."""

    def __init__(self, port: int) -> None:
        self._source = f"host=127.0.0.1 port={port} user=postgres application_name=standby"
        super().__init__(find_postgres(), NEVER)

    def _prepare(self) -> None:
        copying = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        process = self._launch([str(self.bin / "pg_basebackup"), "--pgdata=data", f"--dbname={self._source}", *copying])
        if process.wait(DEADLINE):
            raise self._failed("could not be copied")

    def _ready(self) -> bool:
        return "ready to accept read-only connections" in self._said()

    def promote(self) -> None:
        """Make it a primary that takes writes, without a standby of its own."""
        self.psql("SELECT pg_promote()")
        self.psql("ALTER SYSTEM SET synchronous_standby_names = ''")
        self.psql("SELECT pg_reload_conf()")
        assert wait_until(lambda: self.psql("SHOW synchronous_standby_names") == "")


class Pair:
    """A primary whose commits wait for its standby, as seen by a session of the test's own."""

    def __init__(self) -> None:
        self.primary = PostgresServer(find_postgres(), NEVER)
        self.link = Link(self.primary.port)
        self.standby = Standby(self.link.port)
        self.beside = psycopg.connect(self.primary.url, autocommit=True)
        self.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.run("SELECT pg_reload_conf()")
        state = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        assert wait_until(lambda: bool(self.run(state))), "the standby is not synchronous"

    def run(self, text: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Run any statement on the primary and return its rows, if it has some."""
        cursor = self.beside.execute(text.encode(), params)
        return cursor.fetchall() if cursor.description else []

    def waiting(self) -> list[int]:
        """The sessions whose commit waits for the standby."""
        return [pid for (pid,) in self.run("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")]

    def show_unreplicated(self) -> None:
        """Cancel every commit that waits: PostgreSQL shows its rows to all, and the standby does not have them."""
        for pid in self.waiting():
            self.run("SELECT pg_cancel_backend(%s)", (pid,))
        assert wait_until(lambda: not self.waiting()), "a cancelled commit still waits"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the block the standby receives nothing, so commits wait."""
        self.link.hold()
        try:
            yield
        finally:
            self.link.release()

    def fail_over(self) -> None:
        """Kill the primary with everything that it has not replicated, and promote the standby."""
        self.link.cut()
        self.primary.kill()
        self.standby.promote()

    @property
    def url(self) -> str:
        """Both servers, whichever takes writes."""
        ports = (self.primary.port, self.standby.port)
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def close(self) -> None:
        self.beside.close()
        self.link.release()
        self.standby.close()
        self.primary.close()
        self.link.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
