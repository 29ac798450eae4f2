"""Connections to PostgreSQL that `connect(url)` opens: hosts have deadlines, and what may commit is never cancelled."""

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from raceproof.drivers.asyncpg import AsyncpgConnection
from raceproof.drivers.conforming import refuse_escapes, setting_of
from raceproof.drivers.unreplicated import Warned, confirm
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import log
from raceproof.kernel.sqlstate import READ_ONLY, leaves, sqlstate
from raceproof.kernel.statement import Rows, Statement
from raceproof.programs import Programs

STILL_THERE = 5.0
"""Seconds in which a connection answers that somebody gave up on, or it is given up altogether."""


class _Uncancelled(asyncpg.Connection):
    """An asyncpg connection that lets a statement which may commit go on when its caller is cancelled or out of time.

    asyncpg then reads and drops the answer, and whatever is asked next waits for that.
    """

    __slots__ = ("committing",)

    def _cancel_current_command(self, waiter: "asyncio.Future[None]", *rest: Any) -> None:
        if not getattr(self, "committing", False):
            super()._cancel_current_command(waiter, *rest)  # type: ignore[misc]
        elif not waiter.done():
            waiter.set_result(None)


class Own(AsyncpgConnection):
    """A connection that we opened and may close."""

    left = False
    """Whether its server takes no writes any more."""

    def __init__(self, connection: Any, programs: Programs) -> None:
        super().__init__(connection, programs)
        self._warned = Warned()
        connection.add_log_listener(self._warned.of_asyncpg)

    async def _commit(self, text: str, params: Sequence[Any]) -> Rows:
        self._connection.committing = True
        self._warned.forget()  # a statement without a waiting caller may have been the cause
        rows: Rows = await self._connection.fetch(text, *params)
        confirm(self._warned)
        return rows

    async def close(self) -> None:
        """Close it in good order; a statement that it is at may come to its end before, for a while."""
        try:
            await self._connection.close(timeout=STILL_THERE)
        except Exception as error:
            log.info("a connection that did not close in time is cut: %s", type(error).__name__)
            self.terminate()

    def terminate(self) -> None:
        if not self.is_closed:
            self._connection.terminate()

    async def execute(self, statement: Statement) -> Rows:
        self._connection.committing = False
        try:
            return await super().execute(statement)
        except Exception as error:
            if isinstance(error.__cause__ or error, TimeoutError):
                self.terminate()
            elif leaves(error):
                self.left = sqlstate(error) == READ_ONLY
                self.terminate()
            raise

    async def answer(self) -> None:
        """Come to the end of what it was at, and answer."""
        async with asyncio.timeout(STILL_THERE):
            await self._connection.fetchval("SELECT 1")


class Connecting:
    """How to connect: each of several hosts has `connect_timeout` seconds, so that one that hangs does not hide the next."""

    def __init__(
        self, url: str, settings: dict[str, Any], connect_timeout: float | None, command_timeout: float | None
    ) -> None:
        self._urls = _each_host(url)
        if "connection_class" in settings:
            raise CallError(
                "connect opens PostgreSQL connections of a class of its own; open yours and bind it instead"
            )
        self._settings = {"command_timeout": command_timeout, **settings, "connection_class": _Uncancelled}
        self._timeout = settings.get("timeout", connect_timeout)

    async def connect(self) -> tuple[Any, bool]:
        """A connection of our own, and whether its session is."""
        failure: Exception | None = None
        for url in self._urls:
            try:
                async with asyncio.timeout(self._timeout):
                    return await _connected(url, {**self._settings, "timeout": self._timeout})
            except TimeoutError:
                failure = TimeoutError(
                    f"PostgreSQL at {_place(url)} has not answered within {self._timeout:g} s (connect_timeout); "
                    "nothing was sent"
                )
            except (
                OSError,
                asyncpg.CannotConnectNowError,
                asyncpg.TargetServerAttributeNotMatched,
                asyncpg.ConnectionDoesNotExistError,
            ) as error:
                failure = error
        assert failure is not None
        raise failure


def _each_host(url: str) -> list[str]:
    """A URL for each host of one that names several; the driver would give them one deadline together."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "prefer-standby" in parts.query:
        return [url]  # has to see them all before it can choose
    return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]


def _place(url: str) -> str:
    """Where a URL leads to, without its password."""
    return urlsplit(url).netloc.rpartition("@")[2] or "its socket"


async def _connected(url: str, settings: dict[str, Any]) -> tuple[Any, bool]:
    """A connection of our own. All our statements find rows by an index; a table that is new has no statistics to say so.

    Behind a transaction pooler the session is not ours, so nothing is set there; this is said as well.
    """
    connection = await asyncpg.connect(url, **settings)
    try:
        refuse_escapes(setting_of(connection))
        ours = bool(await connection.fetchval("SELECT pg_backend_pid()") == connection.get_server_pid())
        if ours:
            await connection.execute("SET enable_bitmapscan = off; SET enable_seqscan = off")
    except BaseException:
        connection.terminate()
        raise
    return connection, ours
