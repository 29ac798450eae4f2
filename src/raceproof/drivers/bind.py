"""`bind`: the primitives on a connection that the caller has already. It opens nothing and closes nothing."""

import importlib
from typing import TYPE_CHECKING, Any, overload

from raceproof.driver import AsyncDriver, Driver
from raceproof.kernel.errors import CallError
from raceproof.store import AsyncStore, Store

if TYPE_CHECKING:
    from raceproof.drivers.kinds import AsyncConnection, SyncConnection

# class of the connection -> module and class of its driver. Looked up by name, so that nothing is imported in vain.
_DRIVERS = {
    "asyncpg.connection.Connection": "asyncpg.AsyncpgConnection",
    "asyncpg.pool.PoolConnectionProxy": "asyncpg.AsyncpgConnection",
    "asyncpg.pool.Pool": "asyncpg.AsyncpgPool",
    "psycopg.Connection": "psycopg.PsycopgConnection",
    "psycopg.AsyncConnection": "psycopg.AsyncPsycopgConnection",
    "sqlite3.Connection": "sqlite.SqliteConnection",
    "redis.client.Redis": "redis.RedisClient",
    "redis.asyncio.client.Redis": "redis.AsyncRedisClient",
    "redis.cluster.RedisCluster": "redis.RedisCluster",
    "redis.asyncio.cluster.RedisCluster": "redis.AsyncRedisCluster",
    "sqlalchemy.engine.base.Connection": "sqlalchemy.SqlalchemyConnection",
    "sqlalchemy.orm.session.Session": "sqlalchemy_session.SqlalchemySession",
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": "sqlalchemy.AsyncSqlalchemyConnection",
    "sqlalchemy.ext.asyncio.session.AsyncSession": "sqlalchemy_session.AsyncSqlalchemySession",
    "django.db.backends.base.base.BaseDatabaseWrapper": "django.DjangoConnection",
    "django.utils.connection.ConnectionProxy": "django.DjangoConnection",
}


@overload
def bind(connection: "SyncConnection", *, tenant: Any = None, **settings: Any) -> Store: ...
@overload
def bind(connection: "AsyncConnection", *, tenant: Any = None, **settings: Any) -> AsyncStore: ...


def bind(connection: Any, *, tenant: Any = None, **settings: Any) -> Store | AsyncStore:
    """Use the primitives on your own connection, inside your own transaction.

    Takes an asyncpg connection or pool, a psycopg connection (sync or async), a sqlite3 connection, a SQLAlchemy
    Connection or Session (sync or async), Django's connection, a redis-py client (sync or async). `tenant` is the value
    of the tenant column where the lifecycle has one. `cluster=True` gives a redis-py client hash-tagged keys.
    """
    for cls in type(connection).__mro__:
        if cls.__module__.startswith("redis.") and cls.__qualname__.endswith("Pipeline"):
            raise CallError("bind takes a redis-py client, not a pipeline: what is queued there runs after the answer")
        driver = _DRIVERS.get(f"{cls.__module__}.{cls.__qualname__}")
        if driver is not None:
            module, name = driver.split(".")
            made = getattr(importlib.import_module(f"raceproof.drivers.{module}"), name)(connection, **settings)
            if isinstance(made, AsyncDriver):
                return AsyncStore(made, tenant)
            assert isinstance(made, Driver)
            return Store(made, tenant)
    raise CallError(
        f"bind does not know {type(connection).__module__}.{type(connection).__qualname__}; it takes connections of "
        "asyncpg, psycopg, sqlite3, SQLAlchemy, Django and redis-py (an engine or URL: open a connection, or use connect)"
    )
