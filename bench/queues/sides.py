"""Who is compared, and about how fast each is: a run has as many items as take some seconds."""

from dataclasses import dataclass

from bench.queues.celery import Celery
from bench.queues.dbos import Dbos
from bench.queues.dramatiq import Dramatiq
from bench.queues.huey import HueyOnRedis, HueyOnSqlite
from bench.queues.pgqueuer import PgQueuer
from bench.queues.procrastinate import Procrastinate
from bench.queues.queue import Queue
from bench.queues.raw import Raw
from bench.queues.run import seconds
from bench.queues.saq import SaqOnPostgres, SaqOnRedis
from bench.queues.stores import Store, fresh
from bench.world import World


@dataclass(frozen=True, slots=True)
class Side:
    """A queue on a store."""

    name: str
    kind: type[Queue]
    store: Store
    rates: tuple[float, float]
    """Items a second, roughly, by default and at best."""

    async def measure(self, world: World, items: int, tuned: bool) -> float:
        """Seconds for so many items."""
        with fresh(world, self.store) as url:
            return await seconds(self.kind, url, items, tuned)


RAW = Side("hand-written SQL, asyncpg", Raw, Store.POSTGRES, (700, 50_000))

PEERS = (
    Side("PgQueuer, PostgreSQL", PgQueuer, Store.POSTGRES, (700, 9_000)),
    Side("Procrastinate, PostgreSQL", Procrastinate, Store.POSTGRES, (200, 300)),
    Side("DBOS, PostgreSQL", Dbos, Store.POSTGRES, (140, 250)),
    Side("SAQ, PostgreSQL", SaqOnPostgres, Store.POSTGRES, (330, 330)),
    Side("SAQ, Redis", SaqOnRedis, Store.REDIS, (750, 900)),
    Side("Celery, Redis", Celery, Store.REDIS, (350, 500)),
    Side("Dramatiq, Redis", Dramatiq, Store.REDIS, (1_300, 2_000)),
    Side("Huey, SQLite", HueyOnSqlite, Store.SQLITE, (1_100, 1_200)),
    Side("Huey, Redis", HueyOnRedis, Store.REDIS, (1_100, 2_500)),
)
