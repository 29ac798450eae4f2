"""Every kind of store on PostgreSQL whose calls commit by themselves, sync and async."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from raceproof import AsyncStore, Store, bind, connect
from tests.integrations.own.fix_django import django_on_postgres

SYNC = ("psycopg", "connect", "sqlalchemy")
ASYNC = ("asyncpg", "pool", "psycopg-async", "connect-async", "sqlalchemy-asyncpg", "sqlalchemy-psycopg")


@asynccontextmanager
async def opened(kind: str, url: str, **settings: Any) -> AsyncIterator[Store | AsyncStore]:
    """A store of one kind; its connection may be broken when the block ends."""
    async with AsyncExitStack() as stack:
        rest = url.partition("://")[2]
        match kind:
            case "asyncpg":
                own: Any = await asyncpg.connect(url)
                stack.callback(own.terminate)
                yield bind(own)
            case "pool":
                pool: Any = await asyncpg.create_pool(url, min_size=1, max_size=1)
                stack.callback(pool.terminate)
                yield bind(pool)
            case "psycopg":
                plain = psycopg.connect(url, autocommit=True)
                stack.callback(plain.close)
                yield bind(plain)
            case "psycopg-async":
                other = await psycopg.AsyncConnection.connect(url, autocommit=True)
                stack.push_async_callback(other.close)
                yield bind(other)
            case "connect":
                yield stack.enter_context(connect(url, **settings))
            case "connect-async":
                yield await stack.enter_async_context(connect(url, **settings))
            case "sqlalchemy":
                engine = create_engine(f"postgresql+psycopg://{rest}", isolation_level="AUTOCOMMIT")
                stack.callback(engine.dispose)
                yield bind(stack.enter_context(engine.connect()))
            case "sqlalchemy-asyncpg" | "sqlalchemy-psycopg":
                scheme = f"postgresql+{kind.partition('-')[2]}://"
                waiting = create_async_engine(scheme + rest, isolation_level="AUTOCOMMIT")
                stack.push_async_callback(waiting.dispose)
                yield bind(await stack.enter_async_context(waiting.connect()))
            case "django":
                django = django_on_postgres(url)
                stack.push_async_callback(django.close)
                yield django.store
