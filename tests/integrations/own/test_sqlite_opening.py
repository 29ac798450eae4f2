"""An embedded store that several processes open at once, when nobody has made its file yet."""

import multiprocessing
import sqlite3
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from raceproof.connect.url import open_sqlite

PROCESSES = 4
Opening = Callable[[str], sqlite3.Connection]


def ours(path: str) -> sqlite3.Connection:
    return open_sqlite(f"sqlite:///{path}", {})


def by_hand(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _opening(opening: Opening, folder: str, files: int, barrier: Barrier, told: "Queue[str]") -> None:
    for number in range(files):
        barrier.wait(60)
        try:
            opening(f"{folder}/{number}.db").close()
        except sqlite3.OperationalError as error:
            told.put(str(error))
    told.put("done")


def refusals(opening: Opening, folder: Path, files: int) -> list[str]:
    """What processes were told that opened so many new files, each file at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(PROCESSES), context.Queue()
    arguments = (opening, str(folder), files, barrier, told)
    processes = [context.Process(target=_opening, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    found: list[str] = []
    while found.count("done") < PROCESSES:
        found.append(told.get(timeout=120))
    for process in processes:
        process.join()
    return [one for one in found if one != "done"]


def test_many_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    """All of them have it."""
    assert refusals(ours, tmp_path, 300) == []


def test_sqlite_alone_refuses_some_of_them(tmp_path: Path) -> None:
    """At once, whatever its timeout."""
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        if found := refusals(by_hand, folder, 300):
            assert set(found) == {"database is locked"}
            return
    raise AssertionError("the usual way was never refused: this test shows nothing")
