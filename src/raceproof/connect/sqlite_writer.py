"""The embedded writer: SQLite behind one thread that owns the connection, with group commit.

Everything that gathers while one commit is on its way goes into the next, so one flush to the disk serves many callers.
Nobody is answered before the commit. If one call fails, nothing of the shared transaction was kept, and each call runs
again in a transaction of its own.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from raceproof.driver import AsyncDriver
from raceproof.drivers.sqlite import SqliteConnection
from raceproof.kernel.batcher import Batcher
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import BEGIN, COMMIT, ROLLBACK, AcknowledgementLost, Program, Rows, Statement, run
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest

T = TypeVar("T")


class SqliteWriter(AsyncDriver):
    """SQLite behind one thread; moves that arrive together share one commit."""

    shared = True

    def __init__(self, open: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(SqliteDialect("question"))
        self._open = open
        self._batcher = Batcher(self._many, self._one, passes=self._one)
        self._jobs: SimpleQueue[tuple[Callable[[SqliteConnection], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._work, name="raceproof-sqlite-writer", daemon=True)
        self._closed = False

    async def open(self) -> None:
        self._thread.start()
        await self._started

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self._batcher.submit(request)

    async def run(self, program: Program[T]) -> T:
        return await self._in_thread(lambda driver: driver.run(program))

    async def _one(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self._in_thread(lambda driver: driver.move(request))

    async def _many(self, requests: Sequence[MoveRequest]) -> Sequence[Answer[Any, Any]]:
        return await self._in_thread(lambda driver: share_commit(driver, requests))

    async def _in_thread(self, job: Callable[[SqliteConnection], T]) -> T:
        if self._closed:
            raise sqlite3.ProgrammingError("the store is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((job, future))
        return await future

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            await self._loop.run_in_executor(None, self._thread.join)

    def _work(self) -> None:
        """The life of the writer's thread."""
        try:
            connection = self._open()
        except BaseException as error:
            self._loop.call_soon_threadsafe(self._started.set_exception, error)
            return
        self._loop.call_soon_threadsafe(self._started.set_result, None)
        driver = SqliteConnection(connection)
        while (taken := self._jobs.get()) is not None:
            job, future = taken
            if future.cancelled():
                continue
            result: Any = None
            failure: Exception | None = None
            try:
                result = job(driver)
            except Exception as error:
                failure = error
            self._loop.call_soon_threadsafe(_deliver, future, result, failure)
        connection.close()


def share_commit(driver: SqliteConnection, requests: Sequence[MoveRequest]) -> list[Answer[Any, Any]]:
    """All moves in one transaction; if one of them fails, all of it is undone and the error raised."""

    def inside(statement: Statement) -> Rows:
        return () if statement.text in ("BEGIN", "COMMIT", "ROLLBACK") else driver.execute(statement)

    driver.execute(BEGIN)
    try:
        answers = [run(inside, driver.programs.moves.one(request)) for request in requests]
        driver.execute(COMMIT)
    except AcknowledgementLost as lost:
        driver.execute(ROLLBACK)
        return [request.unknown(lost) for request in requests]
    except BaseException:
        driver.execute(ROLLBACK)
        raise
    return answers


def _deliver(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
