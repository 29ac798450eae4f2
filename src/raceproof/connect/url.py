"""`connect(url)`: for people without a connection of their own. It keeps its connections warm and coalesces async calls."""

import importlib
import sqlite3
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from raceproof.connect.sqlite_writer import SqliteWriter
from raceproof.connect.sync import WarmDriver
from raceproof.driver import AsyncDriver, Driver
from raceproof.drivers.sqlite import SqliteConnection
from raceproof.kernel.errors import CallError, missing_extra
from raceproof.store import AsyncStore, Store

_PATIENCE = 30.0
SCHEMES = {
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "postgres": "postgres",
    "redis": "redis",
    "rediss": "redis",
    "valkey": "redis",
    "valkeys": "redis",
    "unix": "redis",
}


class Deadlines(NamedTuple):
    """Seconds that a server has to accept a connection, and to answer a statement; None waits for ever."""

    connect: float | None
    command: float | None

    def of_psycopg(self, url: str) -> dict[str, Any]:
        """As libpq knows it: for each host, in whole seconds, unless the URL says something else."""
        if self.connect is None or "connect_timeout=" in url:
            return {}
        return {"connect_timeout": max(1, round(self.connect))}

    def of_redis(self) -> dict[str, Any]:
        """As redis-py knows them."""
        return {"socket_connect_timeout": self.connect, "socket_timeout": self.command}


DEFAULT_DEADLINES = Deadlines(10.0, 30.0)


def without_driver(url: str) -> tuple[str, str]:
    """A URL and its scheme without the driver that SQLAlchemy's form names, as in postgresql+asyncpg://…"""
    written, slashes, rest = url.partition("://")
    scheme = written.partition("+")[0].lower()
    return (f"{scheme}://{rest}", scheme) if slashes else (url, urlsplit(url).scheme)


class Connecting:
    """What `connect` returns: `with` gives a Store, `async with` an AsyncStore; `.open()` and `await` do so without."""

    def __init__(
        self, url: str, tenant: Any, settings: dict[str, Any], deadlines: Deadlines = DEFAULT_DEADLINES
    ) -> None:
        url, scheme = without_driver(url)
        if scheme not in SCHEMES:
            raise CallError(
                f"connect does not know the scheme {scheme!r}; write sqlite:///file.db, postgresql://… or redis://…"
            )
        self._kind = SCHEMES[scheme]
        self._url = _plain(url)
        self.tenant = tenant
        self._settings = settings
        self._deadlines = deadlines
        self._store: Store | None = None
        self._async_store: AsyncStore | None = None

    def open(self) -> Store:
        """Connect now, for sync code; close the store when done."""
        return Store(_open(self._kind, self._url, self._settings, self._deadlines), self.tenant)

    async def aopen(self) -> AsyncStore:
        """Connect now, for async code; close the store when done."""
        return AsyncStore(await _aopen(self._kind, self._url, self._settings, self._deadlines), self.tenant)

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        return self.aopen().__await__()

    def __enter__(self) -> Store:
        self._store = self.open()
        return self._store

    def __exit__(self, *_: object) -> None:
        if self._store:
            self._store.close()

    async def __aenter__(self) -> AsyncStore:
        self._async_store = await self.aopen()
        return self._async_store

    async def __aexit__(self, *_: object) -> None:
        if self._async_store:
            await self._async_store.close()


def connect(
    url: str,
    *,
    tenant: Any = None,
    connect_timeout: float | None = DEFAULT_DEADLINES.connect,
    command_timeout: float | None = DEFAULT_DEADLINES.command,
    **settings: Any,
) -> Connecting:
    """Open a store by its URL: `sqlite:///file.db`, `postgresql://…` or `redis://…`.

    with connect(url) as db: …            # sync
    async with connect(url) as db: …      # async, concurrent calls share statements

    A server has `connect_timeout` seconds to accept a connection and `command_timeout` to answer a statement; what may have
    been committed by then is `Unknown`. None waits for ever. Further settings go to the driver's own connect function.
    """
    return Connecting(url, tenant, settings, Deadlines(connect_timeout, command_timeout))


def _open(kind: str, url: str, settings: dict[str, Any], deadlines: Deadlines) -> Driver:
    if kind == "sqlite":
        return WarmDriver(lambda: open_sqlite(url, settings), SqliteConnection)
    if kind == "postgres":
        psycopg = _needs("psycopg", "postgres")
        driver = _needs("raceproof.drivers.psycopg", "postgres").PsycopgConnection
        connecting = deadlines.of_psycopg(url)
        return WarmDriver(
            lambda: psycopg.connect(url, autocommit=True, **{**connecting, **settings}),
            lambda connection: driver(connection, deadlines.command),
            deadlines.command,
        )
    redis = _needs("redis", "redis")
    driver = _needs("raceproof.drivers.redis", "redis").RedisClient
    options = {"single_connection_client": True, **deadlines.of_redis(), **settings}
    return WarmDriver(lambda: redis.Redis.from_url(url, **options), driver, deadlines.command)


async def _aopen(kind: str, url: str, settings: dict[str, Any], deadlines: Deadlines) -> AsyncDriver:
    driver: Any
    if kind == "sqlite":
        driver = SqliteWriter(lambda: open_sqlite(url, settings))
    elif kind == "postgres":
        driver = _needs("raceproof.connect.postgres", "postgres").WarmPostgres(
            url, settings, deadlines.connect, deadlines.command
        )
    else:
        driver = _needs("raceproof.connect.redis", "redis").WarmRedis(url, {**deadlines.of_redis(), **settings})
    await driver.open()
    made: AsyncDriver = driver
    return made


def open_sqlite(url: str, settings: dict[str, Any]) -> sqlite3.Connection:
    """A connection for the embedded store: every commit is on the disk before it is acknowledged, readers never wait."""
    path = unquote(urlsplit(url).path)
    path = path.removeprefix("/") if not path.startswith("//") else path[1:]
    if path in ("", ":memory:"):
        raise CallError("sqlite: an embedded store is a file that processes share, as in sqlite:///state.db")
    if not Path(path).parent.is_dir():
        raise CallError(f"sqlite: the folder of {path} does not exist; create it first")
    connection: sqlite3.Connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, **{"timeout": 30.0, **settings}
    )
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Others may be opening the same new file: here SQLite does not wait for them, whatever its timeout."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                connection.close()
                raise
        time.sleep(0.01)


def _plain(url: str) -> str:
    """The URL as the drivers know it."""
    for theirs, ours in (("valkey://", "redis://"), ("valkeys://", "rediss://")):
        if url.startswith(theirs):
            return ours + url.removeprefix(theirs)
    return url


def _needs(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_extra(error.name or module, extra) from error
