"""What a caller holds: `Store` on a sync connection, `AsyncStore` on an async one, with the same methods.

Both are thin: check the call, run the program, tell the event. Everything that decides is in the primitives.
"""

from typing import Self

from raceproof.store.attempts import AsyncAttempts, StartOptions, SyncAttempts
from raceproof.store.claims import AsyncClaims, ClaimOptions, SyncClaims
from raceproof.store.deliveries import AsyncDeliveries, SyncDeliveries, TurnOptions
from raceproof.store.inbox import AsyncInbox, SyncInbox
from raceproof.store.leases import AsyncLeases, SyncLeases
from raceproof.store.moves import AsyncMoves, MoveOptions, SyncMoves

__all__ = ["AsyncStore", "ClaimOptions", "MoveOptions", "StartOptions", "Store", "TurnOptions"]


class Store(SyncMoves, SyncClaims, SyncDeliveries, SyncAttempts, SyncLeases, SyncInbox):
    """The primitives on a sync connection. Made by `bind` and `connect`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what `connect` opened; a connection given to `bind` stays open."""
        self._driver.close()


class AsyncStore(AsyncMoves, AsyncClaims, AsyncDeliveries, AsyncAttempts, AsyncLeases, AsyncInbox):
    """The primitives on an async connection. Made by `bind` and `connect`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what `connect` opened; a connection given to `bind` stays open."""
        await self._driver.close()
