"""Cursors for statements that may commit: psycopg cancels those that are interrupted, and these are not cancelled.

A sync call that Ctrl-C (or an exit in a signal handler) interrupts closes its connection at once; an async call that is
cancelled waits for the end of its statement for a while, and closes it then. `patience` bounds the wait for an answer.
"""

import asyncio
import time
from collections.abc import Generator, Sequence
from typing import Any

import psycopg
from psycopg import pq, waiting

from raceproof.drivers.unbroken import PATIENCE
from raceproof.drivers.unreplicated import Warned, confirm

_INTERVAL = 0.1
"""Seconds between two looks at the clock and at signals."""


class _NoAnswer(Exception):
    """The server has not answered in time."""


class Cursor(psycopg.RawCursor[Any]):
    """A cursor of a sync connection."""

    patience: float | None = None
    """Seconds in which the server has to answer; on the caller's own connection that is for the caller to say."""

    def run(self, text: str, params: Sequence[Any]) -> None:
        """Run a statement without ever cancelling it."""
        connection: Any = self._conn
        steps = self._execute_gen(text, params)
        if self.patience is not None:
            steps = _bounded(steps, self.patience)
        with connection.lock:
            try:
                waiting.wait(steps, connection.pgconn.socket, interval=_INTERVAL)
            except _NoAnswer as error:
                connection.pgconn.finish()
                raise psycopg.OperationalError(str(error)) from None
            except BaseException:
                # a bad value fails before anything is sent; an interrupted statement is still under way
                if connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                    connection.pgconn.finish()
                raise

    def commit(self, text: str, params: Sequence[Any]) -> None:
        """Run a statement that commits by itself: the standby has it when this returns."""
        connection, warned = self._conn, Warned()
        connection.add_notice_handler(warned.of_psycopg)
        try:
            self.run(text, params)
        finally:
            connection.remove_notice_handler(warned.of_psycopg)
        confirm(warned)


class AsyncCursor(psycopg.AsyncRawCursor[Any]):
    """A cursor of an async connection."""

    async def commit(self, text: str, params: Sequence[Any]) -> None:
        """Run a statement that commits by itself without ever cancelling it: the standby has it when this returns."""
        connection, warned = self._conn, Warned()
        connection.add_notice_handler(warned.of_psycopg)
        try:
            async with connection.lock:
                await self._run(connection.pgconn, self._execute_gen(text, params))
        finally:
            connection.remove_notice_handler(warned.of_psycopg)
        confirm(warned)

    async def _run(self, pgconn: Any, steps: Any) -> None:
        try:
            await waiting.wait_async(steps, pgconn.socket, interval=_INTERVAL)
        except (asyncio.CancelledError, KeyboardInterrupt):
            if pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                await _end(pgconn, steps)
            raise


async def _end(pgconn: Any, steps: Any) -> None:
    """Come to the end of a statement, or close its connection."""
    try:
        async with asyncio.timeout(PATIENCE):
            await waiting.wait_async(steps, pgconn.socket, interval=_INTERVAL)
    except psycopg.Error:
        pass  # of the statement, which has ended with that
    except TimeoutError:
        pgconn.finish()
    except BaseException:
        pgconn.finish()
        raise


def _bounded(steps: Any, patience: float) -> Generator[Any, Any, Any]:
    """The same steps; _NoAnswer if they take longer than that."""
    deadline = time.monotonic() + patience
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise _NoAnswer(
                    f"PostgreSQL has not answered within {patience:g} s (command_timeout); the connection was closed"
                )
            wanted = steps.send(ready)
    except StopIteration as stop:
        return stop.value
