"""The connections that `bind` takes, described by what they can do.

A class of an optional package is `Any` to a type checker that lacks the package or its stubs, and an `Any` in the first
overload would match everything. So these name no package: each asks for a member that only that package's connections
have, and one that only the synchronous or only the asynchronous form has. `bind` itself goes by the names of classes.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class PsycopgConnection(Protocol):
    """psycopg.Connection."""

    @property
    def pgconn(self) -> object: ...
    def commit(self) -> None: ...


class AsyncPsycopgConnection(Protocol):
    """psycopg.AsyncConnection."""

    @property
    def pgconn(self) -> object: ...
    def commit(self) -> Awaitable[None]: ...


class SqlalchemyConnection(Protocol):
    """SQLAlchemy's Connection and Session."""

    def in_nested_transaction(self) -> bool: ...
    def commit(self) -> None: ...


class AsyncSqlalchemyConnection(Protocol):
    """SQLAlchemy's AsyncConnection and AsyncSession."""

    def in_nested_transaction(self) -> bool: ...
    def commit(self) -> Awaitable[None]: ...


class RedisClient(Protocol):
    """redis.Redis and redis.RedisCluster."""

    @property
    def execute_command(self) -> Callable[..., Any]: ...
    def __enter__(self) -> Any: ...


class AsyncRedisClient(Protocol):
    """redis.asyncio.Redis and redis.asyncio.RedisCluster."""

    @property
    def execute_command(self) -> Callable[..., Any]: ...
    def __aenter__(self) -> Awaitable[Any]: ...


class DjangoConnection(Protocol):
    """Django's BaseDatabaseWrapper."""

    @property
    def settings_dict(self) -> object: ...
    def close_if_unusable_or_obsolete(self) -> None: ...


class DjangoConnectionProxy(Protocol):
    """django.db.connection where it is typed as the proxy that it is."""

    def __getattr__(self, item: str, /) -> Any: ...
    def __contains__(self, key: Any, /) -> Any: ...


class AsyncpgConnection(Protocol):
    """asyncpg's Connection, Pool and, with stubs, PoolConnectionProxy."""

    @property
    def fetchrow(self) -> Callable[..., Awaitable[Any]]: ...


class AsyncpgConnectionProxy(Protocol):
    """asyncpg's PoolConnectionProxy without stubs: what it wraps is hidden behind `__getattr__`."""

    def __getattr__(self, attr: str, /) -> Any: ...
    def _detach(self) -> Any: ...


SyncConnection = (
    sqlite3.Connection
    | PsycopgConnection
    | SqlalchemyConnection
    | RedisClient
    | DjangoConnection
    | DjangoConnectionProxy
)
AsyncConnection = (
    AsyncpgConnection | AsyncpgConnectionProxy | AsyncPsycopgConnection | AsyncSqlalchemyConnection | AsyncRedisClient
)
