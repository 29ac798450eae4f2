"""Where everything is: the store of the attempts, what lies beside them, and the database of the sessions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from appkit.database import Database, open_database
from qrlogin.beside import Beside
from qrlogin.beside_redis import BesideRedis
from qrlogin.beside_sql import BesideDatabase
from qrlogin.identity import SessionId
from qrlogin.lifecycle import Attempt, attempts
from qrlogin.saving import Saving
from qrlogin.sealing import Vault
from qrlogin.settings import Settings
from qrlogin.tables import own_tables
from raceproof import AsyncStore, bind, connect

MIGRATIONS = Path(__file__).parent / "migrations"
CLUSTER = "redis-cluster://"
FEW = 16
"""Connections for what lies beside the attempts; a crowd waits for its turn."""
MANY = 10_000
"""The same of a cluster, whose client does not let callers wait."""


@dataclass(frozen=True, slots=True)
class AttemptPlaces:
    """Where attempts are, and what lies beside them."""

    store: AsyncStore
    beside: Beside

    def of(self, user_id: str) -> AsyncStore:
        """The attempts of one user."""
        return self.store.for_tenant(user_id)

    async def row(self, session_id: SessionId) -> dict[str, Any] | None:
        """An attempt with all its columns."""
        return await self.of(session_id.user_id).read(Attempt, session_id.key)

    async def active(self, user_id: str) -> dict[str, Any] | None:
        """The active attempt of a user, and no other."""
        return await self.store.current_attempt(attempts, user_id)


@dataclass(frozen=True, slots=True)
class Places(AttemptPlaces):
    """Open for as long as the service runs."""

    database: Database
    saving: Saving
    vault: Vault


@asynccontextmanager
async def open_places(settings: Settings) -> AsyncIterator[Places]:
    """As the settings say; embedded ones are made."""
    vault = settings.vault()
    async with open_database(settings.database_url, MIGRATIONS, own_tables) as database:
        saving = Saving(database, vault)
        if not settings.store:
            yield Places(database.store, BesideDatabase(database), database, saving, vault)
            return
        async with open_redis(settings.store) as found:
            yield Places(found.store, found.beside, database, saving, vault)


@asynccontextmanager
async def open_redis(url: str) -> AsyncIterator[AttemptPlaces]:
    """Attempts on Redis or Valkey, one server or a cluster; without the database of the sessions."""
    if url.startswith(CLUSTER):
        plain = f"redis://{url.removeprefix(CLUSTER)}"
        async with RedisCluster.from_url(plain, max_connections=MANY) as cluster:
            yield AttemptPlaces(bind(cluster), BesideRedis(cluster))
        return
    retry = Retry(ExponentialBackoff(cap=1.0, base=0.05), 5)
    pool = BlockingConnectionPool.from_url(
        url.replace("valkey", "redis", 1),
        max_connections=FEW,
        timeout=30,
        retry=retry,
        retry_on_error=[RedisConnectionError],
    )
    async with Redis.from_pool(pool) as client, connect(url) as store:
        yield AttemptPlaces(store, BesideRedis(client))
