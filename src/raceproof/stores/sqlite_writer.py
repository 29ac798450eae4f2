"""The embedded writer: SQLite behind one thread that owns the connection, with group commit.

Everything that has queued up while one commit was on its way goes into the next, so one flush to the disk serves many
callers. Nobody is answered before the commit. If one call fails, nothing of the shared transaction was kept, and each
call runs again in a transaction of its own.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from raceproof.driver import AsyncDriver
from raceproof.moves import MoveRequest, SqliteMoves
from raceproof.moves.answer import unknown
from raceproof.outcome import Answer
from raceproof.statement import BEGIN, COMMIT, ROLLBACK, AcknowledgementLost, Program, Rows, Statement, run
from raceproof.stores.sqlite import SqliteConnection

T = TypeVar("T")


class _Job(NamedTuple):
    """A call on its way to the writer: how to make its program (again, if a neighbour spoils the commit)."""

    make: Callable[[], Program[Any]]
    future: "asyncio.Future[Any]"
    request: MoveRequest | None
    """A move may share a commit with others; any other program has one of its own."""


class SqliteWriter(AsyncDriver):
    """SQLite behind one thread that owns the connection; what has queued up shares one commit."""

    dialect = "sqlite"
    _MOST = 256

    def __init__(self, open: Callable[[], sqlite3.Connection]) -> None:
        self._open = open
        self.moves = SqliteMoves("question")
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._work, name="raceproof-sqlite-writer", daemon=True)
        self._closed = False

    async def open(self) -> None:
        self._thread.start()
        await self._started

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        answer: Answer[Any, Any] = await self._put(lambda: self.moves.one(request), request)
        return answer

    async def run(self, program: Program[T]) -> T:
        result: T = await self._put(lambda: program, None)
        return result

    async def _put(self, make: Callable[[], Program[Any]], request: MoveRequest | None) -> Any:
        if self._closed:
            raise sqlite3.ProgrammingError("the store is closed")
        future = self._loop.create_future()
        self._jobs.put(_Job(make, future, request))
        return await future

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            await self._loop.run_in_executor(None, self._thread.join)

    # In the writer's thread from here on

    def _work(self) -> None:
        try:
            connection = self._open()
        except BaseException as error:
            self._loop.call_soon_threadsafe(self._started.set_exception, error)
            return
        self._loop.call_soon_threadsafe(self._started.set_result, None)
        driver = SqliteConnection(connection)
        ended = False
        while not ended:
            jobs, ended = self._take()
            if jobs:
                answered = self._share_commit(driver, jobs) if len(jobs) > 1 else [_attempt(driver, jobs[0])]
                self._loop.call_soon_threadsafe(_deliver, jobs, answered)
        connection.close()

    def _take(self) -> tuple[list[_Job], bool]:
        """The next jobs that can share a commit, and whether the end has come."""
        jobs: list[_Job] = []
        job = self._jobs.get()
        while True:
            if job is None:
                return jobs, True
            if not job.future.cancelled():
                jobs.append(job)
                if job.request is None or len(jobs) >= self._MOST:
                    return jobs, False
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return jobs, False

    def _share_commit(self, driver: SqliteConnection, jobs: list[_Job]) -> list[Any]:
        """All jobs in one transaction; if one of them fails, nothing was kept and each runs in its own."""

        def inside(statement: Statement) -> Rows:
            return () if statement.text in ("BEGIN", "COMMIT", "ROLLBACK") else driver.execute(statement)

        shared = [(job, job.request) for job in jobs if job.request is not None]
        try:
            driver.execute(BEGIN)
            try:
                answered = [run(inside, job.make()) for job, _ in shared]
                driver.execute(COMMIT)
            except BaseException:
                driver.execute(ROLLBACK)
                raise
        except AcknowledgementLost as lost:
            answered = [unknown(request, lost.__cause__ or lost) for _, request in shared]
        except Exception:
            answered = [_attempt(driver, job) for job, _ in shared]
        return answered + [_attempt(driver, job) for job in jobs if job.request is None]


def _attempt(driver: SqliteConnection, job: _Job) -> Any:
    try:
        return driver.run(job.make())
    except Exception as error:
        return error


def _deliver(jobs: list[_Job], answered: list[Any]) -> None:
    for job, answer in zip(jobs, answered, strict=True):
        if job.future.done():
            continue
        if isinstance(answer, Exception):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)
