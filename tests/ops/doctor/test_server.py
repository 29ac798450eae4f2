"""L16: a clock that is wrong, and a pooler in front."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from urllib.parse import urlsplit

import pytest

from raceproof.connect.url import connect
from raceproof.ops.doctor import diagnose
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.declared import Job


@pytest.mark.parametrize(("apart", "side"), [(100.0, "ahead of"), (-100.0, "behind")])
def test_a_clock_that_is_wrong_is_found(ill: Ill, apart: float, side: str) -> None:
    """How far and to which side; the clock of SQLite is this process's own."""
    found = ill.diagnose(clock=lambda: time.time() + apart)
    if ill.dialect == "sqlite":
        assert found.problems == ()
        return
    (problem,) = found.problems
    assert (problem.check, problem.target) == ("clock", "store")
    assert side in problem.what
    assert abs(problem.evidence[0]["apart_seconds"] + apart) < 50
    assert ill.diagnose().problems == ()


def test_a_slow_answer_is_no_wrong_clock(ill_postgres: Ill) -> None:
    """An answer that took ten seconds by our clock, of which the store's is in the middle, tells of no skew."""
    sides = cycle((-5.0, 5.0))
    assert ill_postgres.diagnose(clock=lambda: time.time() + next(sides)).problems == ()


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """A server that tells another process number at the start than the one that answers, as poolers do."""
    parts = urlsplit(url)
    listener = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []

    def pass_on(source: socket.socket, target: socket.socket, first: bytes = b"") -> None:
        with suppress(OSError):
            target.sendall(first)
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((parts.hostname or "", parts.port or 0))
                ends.extend((client, server))
                start(pass_on, client, server)
                start(answer, server, client)

    def answer(server: socket.socket, client: socket.socket) -> None:
        head = b""
        while b"Z\x00\x00\x00\x05" not in head and (got := server.recv(4096)):  # until it is ready for a query
            head += got
        place = head.find(b"K\x00\x00\x00\x0c")
        if place >= 0:
            number = int.from_bytes(head[place + 5 : place + 9])
            head = head[: place + 5] + (number + 1).to_bytes(4) + head[place + 9 :]
        pass_on(server, client, head)

    threads: list[threading.Thread] = []

    def start(target: Callable[..., None], *args: socket.socket) -> None:
        threads.append(threading.Thread(target=target, args=args, daemon=True))
        threads[-1].start()

    start(serve)
    try:
        port = listener.getsockname()[1]
        yield parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{port}")).geturl()
    finally:
        for one in (listener, *ends):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in threads:
            thread.join(30)


async def test_a_pooler_in_front_is_found(ill_postgres: Ill) -> None:
    """By the sync and by the async store; without it there is none to find."""
    with pooled(ill_postgres.url + "?sslmode=disable&gssencmode=disable") as url:
        with connect(url) as db:
            (problem,) = diagnose(db, Job, ignore=("guard",)).problems
        async with connect(url.partition("?")[0] + "?sslmode=disable") as adb:
            (other,) = (await diagnose(adb, Job)).problems
    assert problem.check == other.check == "pooler"
    assert problem.evidence[0]["connected_to_process"] == problem.evidence[0]["answering_process"] + 1
    async with connect(ill_postgres.url) as direct:
        assert (await diagnose(direct, Job)).problems == ()
