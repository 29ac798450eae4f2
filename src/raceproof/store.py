"""What a caller holds: `Store` on a sync connection, `AsyncStore` on an async one, with the same methods.

Both are thin: check the call, run the program, tell the event. Everything that decides is in the primitives.
"""

from typing import Self, TypeVar

from raceproof.attempts.api import AsyncAttempts, StartOptions, SyncAttempts
from raceproof.claims.api import AsyncClaims, ClaimOptions, SyncClaims
from raceproof.deliveries.api import AsyncDeliveries, SendOptions, SyncDeliveries
from raceproof.inbox.api import AsyncInbox, SyncInbox
from raceproof.kernel.statement import Program
from raceproof.leases.api import AsyncLeases, SyncLeases
from raceproof.moves.api import AsyncMoves, MoveOptions, SyncMoves

T = TypeVar("T")

__all__ = ["AsyncStore", "ClaimOptions", "MoveOptions", "SendOptions", "StartOptions", "Store"]


class Store(SyncMoves, SyncClaims, SyncDeliveries, SyncAttempts, SyncLeases, SyncInbox):
    """The primitives on a sync connection. Made by `bind` and `connect`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, program: Program[T]) -> T:
        """Run a program of your own or of a tool: a generator that yields statements and returns its result."""
        return self.driver.run(program)

    def close(self) -> None:
        """Close what `connect` opened; a connection given to `bind` stays open."""
        self.driver.close()


class AsyncStore(AsyncMoves, AsyncClaims, AsyncDeliveries, AsyncAttempts, AsyncLeases, AsyncInbox):
    """The primitives on an async connection. Made by `bind` and `connect`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, program: Program[T]) -> T:
        """Run a program of your own or of a tool: a generator that yields statements and returns its result."""
        return await self.driver.run(program)

    async def close(self) -> None:
        """Close what `connect` opened; a connection given to `bind` stays open."""
        await self.driver.close()
