"""A PostgreSQL session lock that makes takeover immediate: when a leader's process dies, the server lets go of its lock.

It only speeds things up: the lease row stays the truth. Behind a transaction pooler a session is not one's own, so there it
is refused.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from raceproof.errors import CallError
from raceproof.events import log
from raceproof.leases import Lease

_LOCK = "SELECT pg_try_advisory_lock($1, $2)"


class AdvisoryLock:
    """The lock of one lease on a connection of its own, which is opened by the caller and closed here."""

    def __init__(self, lease: Lease, open: Callable[[], Awaitable[Any]]) -> None:
        self._lease = lease
        self._open = open
        self._connection: Any = None
        self._held = False

    async def open(self) -> None:
        """Connect, and see that the session is ours."""
        self._connection = await self._open()
        told = self._connection.get_server_pid()
        actual = await self._connection.fetchval("SELECT pg_backend_pid()")
        if told != actual:
            await self.close()
            raise CallError(
                f"{self._lease}: a pooler stands between us and PostgreSQL (it says process {told}, the server {actual}); "
                "a session lock needs a direct connection. Leave advisory= out: the lease works without it"
            )

    async def try_lock(self) -> bool:
        """Whether the lock is ours now; a connection that was lost has lost it too."""
        if self._connection is None or self._connection.is_closed():
            self._held = False
            await self.open()
        if not self._held:
            self._held = bool(await self._connection.fetchval(_LOCK, *lock_ids(self._lease)))
        return self._held

    async def close(self) -> None:
        connection, self._connection, self._held = self._connection, None, False
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=5)
            except Exception as error:
                log.warning("%s: the connection of its lock could not be closed: %s", self._lease, error)
                connection.terminate()


def lock_ids(lease: Lease) -> tuple[int, int]:
    """Two signed 32-bit numbers for a lease, the same in every process."""
    digest = hashlib.sha256(f"raceproof\0{lease.table}\0{lease.name}".encode()).digest()
    return int.from_bytes(digest[:4], signed=True), int.from_bytes(digest[4:8], signed=True)
