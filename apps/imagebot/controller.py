"""ACTIVE or PASSIVE: one instance does what only one may do, the others stand by and answer what is harmless.

The lease row with its epoch is the truth. On PostgreSQL a session lock (`pg_try_advisory_lock`, two signed 32-bit numbers)
frees it at once when a holder's process dies. `lock_heartbeat` is for people who look: a row for each run of an instance.
"""

import asyncio
import contextlib
import logging
import secrets
from datetime import datetime, timedelta
from typing import Any

import asyncpg
from sqlalchemy import delete, select, update

from appkit.database import store_now
from appkit.loops import Loop
from imagebot import money
from imagebot.metrics import Metrics
from imagebot.services import CONNECT_TIMEOUT, DatabaseService
from imagebot.settings import Settings
from imagebot.tables import lock_heartbeat
from raceproof import Leader, Lease
from raceproof.run import NotLeading, Role

log = logging.getLogger("imagebot.lock")

LEASE = "imagebot"
REPLACED, SILENT, STOPPED = "REPLACED", "SILENT", "STOPPED"
"""Roles in `lock_heartbeat` of instances that are not at work: another one leads, nothing was heard of it, it has ended."""
SILENT_AFTER = 3
"""Heartbeats."""
FORGOTTEN_AFTER = timedelta(days=1)
IS_POOLED = (
    "a transaction pooler is in front of PostgreSQL, where a session lock cannot be held. After a crash the next instance is"
    " ACTIVE when the lease of LOCK_SECONDS has ended (15 s unless it is set). For failover at once set DIRECT_DATABASE_URL"
)
IS_DIRECT = "a transaction pooler is in front of PostgreSQL; the session lock is held through DIRECT_DATABASE_URL"


class LockController:
    """Who is ACTIVE, as far as this process may believe."""

    def __init__(self, database: DatabaseService, settings: Settings, metrics: Metrics) -> None:
        self._database = database.database
        self._settings = settings
        self._metrics = metrics
        self._role_changed = asyncio.Event()
        direct = settings.direct_database_url or ("" if database.pooled else settings.database)
        session_lock = database.store.dialect == "postgres" and bool(direct)
        if database.pooled:
            log.warning("[POOLER] %s", IS_DIRECT if session_lock else IS_POOLED)

        async def session() -> Any:
            return await asyncpg.connect(direct, timeout=CONNECT_TIMEOUT)

        self.leader = Leader(
            database.store,
            Lease(LEASE, seconds=settings.lease(session_lock)),
            # a name and a process id may be the same in two containers
            by=f"{settings.instance}-{secrets.token_hex(4)}",
            retry=settings.takeover,
            on_active=self._changed,
            on_passive=self._changed,
            advisory=session if session_lock else None,
        )

    @property
    def active(self) -> bool:
        return self.leader.active

    @property
    def role(self) -> Role:
        return self.leader.role

    @property
    def epoch(self) -> int | None:
        """In which this instance leads; None while it does not."""
        try:
            return self.leader.epoch
        except NotLeading:
            return None

    async def _changed(self, leader: Leader) -> None:
        self._metrics.active.set(leader.active)
        log.info("[LOCK] %s is %s", leader.by, leader.role)
        self._role_changed.set()

    async def heartbeat(self, loop: Loop) -> None:
        """A row that says in which role this instance is: now and then, and whenever the role changes."""
        while True:
            loop.beat()
            self._role_changed.clear()
            await self.write(str(self.role))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat):
                    await self._role_changed.wait()

    async def write(self, role: str) -> None:
        """What is true of this instance now, and of others: one ACTIVE at most, and none that has fallen silent."""
        rows, epoch = lock_heartbeat.c, self.epoch
        async with self._database.transaction() as (connection, _):
            now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
            told = {"role": role, "epoch": epoch, "heartbeat_at": now}
            row = money.insert_into(connection, lock_heartbeat).values(instance=self.leader.by, **told)
            await connection.execute(row.on_conflict_do_update(index_elements=["instance"], set_=told))
            if epoch is not None:
                older = (rows.role == Role.ACTIVE, rows.epoch < epoch)
                await connection.execute(update(lock_heartbeat).where(*older).values(role=REPLACED))
            unheard = rows.heartbeat_at < now - timedelta(seconds=SILENT_AFTER * self._settings.heartbeat)
            running = rows.role.in_((Role.ACTIVE, Role.PASSIVE))
            await connection.execute(update(lock_heartbeat).where(unheard, running).values(role=SILENT))
            await connection.execute(delete(lock_heartbeat).where(rows.heartbeat_at < now - FORGOTTEN_AFTER))
