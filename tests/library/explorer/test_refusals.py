"""What the explorer cannot decide is refused: threads, sockets, processes, signals, real sleeps."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from raceproof.testing.explorer import Connection, NotExplorable
from tests.library.explorer.worlds import alone, explored


async def thread() -> None:
    threading.Thread(target=print).start()


async def pool() -> None:
    concurrent.futures.ThreadPoolExecutor().submit(print)


async def to_thread() -> None:
    await asyncio.to_thread(print)


async def sleep() -> None:
    time.sleep(1)  # noqa: ASYNC251


async def connection() -> None:
    await asyncio.open_connection("localhost", 1)


async def unix_connection() -> None:
    await asyncio.open_unix_connection("/nowhere")


async def server() -> None:
    await asyncio.start_server(print, port=1)


async def datagrams() -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol, ("localhost", 1))


async def process() -> None:
    await asyncio.create_subprocess_exec("true")


async def signals() -> None:
    asyncio.get_running_loop().add_signal_handler(15, print)


async def reader() -> None:
    asyncio.get_running_loop().add_reader(0, print)


REFUSED = [
    thread,
    pool,
    to_thread,
    sleep,
    connection,
    unix_connection,
    server,
    datagrams,
    process,
    signals,
    reader,
]


@pytest.mark.parametrize("asks", REFUSED)
def test_what_the_explorer_cannot_decide_is_refused_where_it_is_asked_for(
    asks: Callable[[], Awaitable[None]],
) -> None:
    """With advice, instead of a run that differs from time to time."""
    seen: list[BaseException] = []

    async def main(db: Connection) -> None:
        try:
            await asks()
        except Exception as error:
            seen.append(error)
            raise

    with pytest.raises(NotExplorable, match="effect"):
        explored(alone(main), deviations=1)
    assert all(isinstance(error, NotExplorable) for error in seen)


def test_a_refusal_is_told_also_if_the_code_swallows_it() -> None:
    """A worker that takes it for a failed item would be explored without its work, and pass."""

    async def main(db: Connection) -> None:
        try:
            await asyncio.to_thread(print)
        except Exception:
            await db.execute("INSERT INTO t VALUES (1)")

    with pytest.raises(NotExplorable):
        explored(alone(main), deviations=1)
