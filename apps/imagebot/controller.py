"""ACTIVE or PASSIVE: one instance does what only one may do, the others stand by and answer what is harmless.

The lease row with its epoch is the truth. On PostgreSQL a session lock (`pg_try_advisory_lock`, two signed 32-bit numbers)
frees it at once when a holder's process dies. `lock_heartbeat` is for people who look.
"""

import asyncio
import logging
import os
import time
from typing import Any

import asyncpg

from appkit.database import store_now
from appkit.loops import Loop
from imagebot import money
from imagebot.metrics import Metrics
from imagebot.services import CONNECT_TIMEOUT, DatabaseService
from imagebot.settings import Settings
from imagebot.tables import lock_heartbeat
from raceproof import Leader, Lease, Role

log = logging.getLogger("imagebot.lock")

LEASE = "imagebot"


class LockController:
    """Who is ACTIVE, as far as this process may believe."""

    def __init__(self, database: DatabaseService, settings: Settings, metrics: Metrics) -> None:
        self._database = database.database
        self._settings = settings
        self._metrics = metrics
        self.since = time.monotonic()
        on_postgres = database.store.dialect == "postgres"

        async def session() -> Any:
            return await asyncpg.connect(settings.database, timeout=CONNECT_TIMEOUT)

        self.leader = Leader(
            database.store,
            Lease(LEASE, seconds=settings.lease),
            by=f"{settings.instance}-{os.getpid()}",
            retry=settings.takeover,
            on_active=self._changed,
            on_passive=self._changed,
            advisory=session if on_postgres else None,
        )

    @property
    def active(self) -> bool:
        return self.leader.active

    @property
    def role(self) -> Role:
        return self.leader.role

    async def _changed(self, leader: Leader) -> None:
        self.since = time.monotonic()
        self._metrics.active.set(leader.active)
        log.info("[LOCK] %s is %s", leader.by, leader.role)

    async def heartbeat(self, loop: Loop) -> None:
        """A row that says who was there, and in which role."""
        while True:
            loop.beat()
            async with self._database.transaction() as (connection, _):
                epoch = self.leader.epoch if self.leader.active else None
                told = {"role": str(self.role), "epoch": epoch, "heartbeat_at": store_now(connection)}
                row = money.insert_into(connection, lock_heartbeat).values(
                    instance=self._settings.instance, **told
                )
                await connection.execute(row.on_conflict_do_update(index_elements=["instance"], set_=told))
            await asyncio.sleep(self._settings.heartbeat)
