"""Stores that are reached through a proxy, which loses the message that a test wants lost."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import redis
import redis.asyncio

from raceproof import AsyncStore, Store, bind, connect
from raceproof.declare import Spec
from raceproof.testing import Proxy
from raceproof.testing.contract.grounds import Caller, Ground, PostgresGround, RedisGround
from raceproof.testing.contract.orders import orders

POSTGRES = ("asyncpg", "psycopg", "psycopg-async", "postgres-connect", "postgres-connect-async")
REDIS = ("redis", "redis-async", "redis-connect", "redis-connect-async")
CONNECT = ("postgres-connect", "postgres-connect-async", "redis-connect", "redis-connect-async")
BOUND = tuple(kind for kind in (*POSTGRES, *REDIS) if kind not in CONNECT)


@dataclass
class Faulty:
    """A store behind a proxy (`db`), the raw connection of a bound one, and the truth from beside (`ground`)."""

    kind: str
    db: Caller
    proxy: Proxy
    ground: Ground
    connection: Any
    open: Any
    """Opens another store by another way through the proxy, as a caller does after a broken connection."""

    async def prepared(self, *rows: tuple[str, str], **options: Any) -> Spec[str]:
        """A table with these rows; statements that one call needs have been sent once, on another row."""
        order = orders(**options)
        self.ground.table(order)
        for key, status in (("warm", "NEW"), *rows):
            self.ground.put(order, key, status)
        await self.db.move(order.moves["pack"], "warm")
        return order

    async def after_the_cut(self) -> Caller:
        """Where the caller asks again: `connect` recovers by itself, a bound connection is gone for good."""
        if self.kind in CONNECT or self.kind in REDIS:
            return self.db
        return Caller(await self.open())

    def row(self, order: Spec[str], key: str) -> tuple[str | None, str | None]:
        found = self.ground.get(order, key)
        return found["status"], found["rev"]


@asynccontextmanager
async def open_faulty(kind: str, url: str) -> AsyncIterator[Faulty]:
    """A store of one kind behind a proxy of its own."""
    async with AsyncExitStack() as stack:
        proxy = stack.enter_context(Proxy(url))

        async def open_store() -> Store | AsyncStore:
            return (await _open(kind, proxy.url, stack))[0]

        store, connection = await _open(kind, proxy.url, stack)
        if kind in REDIS:
            client = redis.Redis.from_url(url, decode_responses=True)
            stack.callback(client.close)
            ground: Ground = RedisGround(Caller(store), client)
        else:
            admin = stack.enter_context(psycopg.connect(url, autocommit=True))

            def run(text: str, params: Any = None) -> list[tuple[Any, ...]]:
                cursor = admin.execute(text.encode(), params)
                return cursor.fetchall() if cursor.description else []

            ground = PostgresGround(Caller(store), run)
        yield Faulty(kind, Caller(store), proxy, ground, connection, open_store)


async def _open(kind: str, url: str, stack: AsyncExitStack) -> tuple[Store | AsyncStore, Any]:
    match kind:
        case "asyncpg":
            asyncpg_connection = await asyncpg.connect(url)
            stack.push_async_callback(asyncpg_connection.close, timeout=5)
            return bind(asyncpg_connection), asyncpg_connection
        case "psycopg":
            sync = psycopg.connect(url, autocommit=True)
            stack.callback(sync.close)
            return bind(sync), sync
        case "psycopg-async":
            async_connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
            stack.push_async_callback(async_connection.close)
            return bind(async_connection), async_connection
        case "redis":
            client = redis.Redis.from_url(url)
            stack.callback(client.close)
            return bind(client), client
        case "redis-async":
            async_client = redis.asyncio.Redis.from_url(url)
            stack.push_async_callback(async_client.aclose)
            return bind(async_client), async_client
        case "postgres-connect" | "redis-connect":
            return stack.enter_context(connect(url)), None
        case _:
            return await stack.enter_async_context(connect(url)), None
