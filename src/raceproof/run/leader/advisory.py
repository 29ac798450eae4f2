"""A PostgreSQL session lock that makes takeover immediate: when a leader's process dies, the server lets go of its lock.

It only speeds things up: the lease row stays the truth, and says whether its holder has the lock. Who does not lead lets go
of it, so that who leads can have it. Behind a transaction pooler a session is not one's own, so there it is refused.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from raceproof.kernel.errors import CallError
from raceproof.kernel.events import log
from raceproof.leases import Lease

_LOCK = """
SELECT CASE WHEN EXISTS (
    SELECT 1 FROM pg_locks AS l
    WHERE l.locktype = 'advisory'
      AND l.pid = pg_backend_pid()
      AND l.granted
      -- there the two numbers are without a sign, and both together are of the second kind
      AND l.classid::bigint = $1::int4::bigint & 4294967295
      AND l.objid::bigint = $2::int4::bigint & 4294967295
      AND l.objsubid = 2
-- a session that has the lock could take it once more, and would have to give it back as often
) THEN TRUE ELSE pg_try_advisory_lock($1::int4, $2::int4) END
"""
_UNLOCK = "SELECT pg_advisory_unlock($1::int4, $2::int4)"


class AdvisoryLock:
    """The lock of one lease on a connection of its own, which is opened by the caller and closed here."""

    def __init__(self, lease: Lease, open: Callable[[], Awaitable[Any]]) -> None:
        self._lease = lease
        self._open = open
        self._connection: Any = None
        self._refused = False
        self.held = False
        """Whether the lock is ours, as far as is known."""
        self.lost = asyncio.Event()
        """Set when the connection of a lock that was held has ended."""

    async def begin(self) -> None:
        """Connect, if the server answers; if not, try again with the next request. A pooler is reported at once."""
        try:
            async with asyncio.timeout(self._lease.seconds):
                await self._connect()
        except CallError:
            raise
        except Exception as error:
            log.warning("%s: no connection for its session lock: %s: %s", self._lease, type(error).__name__, error)
            self._drop()
        except asyncio.CancelledError:
            self._drop()
            raise

    async def _connect(self) -> None:
        """Connect, and see that the session is ours."""
        opened = self._connection = await self._open()
        reported = self._connection.get_server_pid()
        actual = await self._connection.fetchval("SELECT pg_backend_pid()")
        if reported != actual:
            self._refused = True
            await self.close()
            raise CallError(
                f"{self._lease}: a pooler stands between us and PostgreSQL (it says process {reported}, "
                f"the server {actual}); "
                "a session lock needs a direct connection. Leave advisory= out: the lease works without it"
            )
        self._connection.add_termination_listener(lambda _: self._ended(opened))

    async def try_lock(self, patience: float) -> bool:
        """Whether the lock is ours now, by the server's word; what a connection that does not answer had is lost."""
        if self._refused:
            return False
        try:
            async with asyncio.timeout(patience):
                if self._connection is None or self._connection.is_closed():
                    await self._connect()
                self.held = bool(await self._connection.fetchval(_LOCK, *lock_ids(self._lease)))
        except Exception as error:
            log.warning("%s: its session lock is not had: %s: %s", self._lease, type(error).__name__, error)
            self._drop()
        except asyncio.CancelledError:
            self._drop()
            raise
        return self.held

    async def unlock(self, patience: float) -> None:
        """Release the lock."""
        if not self.held:
            return
        self.held = False
        try:
            async with asyncio.timeout(patience):
                await self._connection.fetchval(_UNLOCK, *lock_ids(self._lease))
        except Exception as error:
            log.warning("%s: its session lock is let go with its connection: %s", self._lease, error)
            self._drop()
        except asyncio.CancelledError:
            self._drop()
            raise

    def _ended(self, connection: Any) -> None:
        if self._connection is connection and self.held:
            self.held = False
            self.lost.set()

    def _drop(self) -> None:
        connection, self._connection, self.held = self._connection, None, False
        if connection is not None and not connection.is_closed():
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection, self.held = self._connection, None, False
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=min(5.0, self._lease.seconds / 6))
            except Exception as error:
                log.warning("%s: the connection of its lock could not be closed: %s", self._lease, error)
                connection.terminate()


def lock_ids(lease: Lease) -> tuple[int, int]:
    """Two signed 32-bit numbers for a lease, the same in every process."""
    digest = hashlib.sha256(f"raceproof\0{lease.table}\0{lease.name}".encode()).digest()
    return int.from_bytes(digest[:4], signed=True), int.from_bytes(digest[4:8], signed=True)
