"""How many may do something at once, over all processes: slots, each a lease of its own."""

import time
from dataclasses import dataclass

from raceproof.declare.spec import check_seconds, is_count
from raceproof.kernel.errors import DeclarationError
from raceproof.leases import Lease, LeaseGranted
from raceproof.store import AsyncStore


@dataclass(frozen=True)
class ConcurrencyLimit:
    """At most `max_slots` at once: `ConcurrencyLimit("vetting", 1)`. The slot of a dead holder is free after `seconds`."""

    name: str
    max_slots: int
    seconds: float = 30.0
    table: str = "raceproof_lease"

    def __post_init__(self) -> None:
        if not is_count(self.max_slots):
            raise DeclarationError(
                f"limit {self.name}: max_slots={self.max_slots!r} is not a number of slots; give 1 or more"
            )
        check_seconds(f"limit {self.name}: seconds", self.seconds)

    async def take(self, db: AsyncStore, by: str) -> "Slot | None":
        """A slot, or None if all are taken."""
        for number in range(self.max_slots):
            lease = Lease(f"{self.name}/{number}", self.seconds, self.table)
            answer = await db.acquire_lease(lease, f"{by}/{number}")
            if isinstance(answer, LeaseGranted):
                return Slot(db, answer)
        return None


class Slot:
    """One of the slots of a limit, kept up by whoever holds it."""

    def __init__(self, db: AsyncStore, leading: LeaseGranted) -> None:
        self._db = db
        self._leading = leading

    @property
    def is_ours(self) -> bool:
        """Whether no other process can have it yet, by the local clock."""
        return time.monotonic() < self._leading.deadline

    async def keep(self) -> bool:
        """Whether it is still ours; renewed when a third of it is over."""
        if self._leading.deadline - time.monotonic() > self._leading.declared.seconds * 2 / 3:
            return True
        answer = await self._db.renew_lease(self._leading)
        if isinstance(answer, LeaseGranted):
            self._leading = answer
            return True
        return False

    async def free(self) -> None:
        await self._db.release_lease(self._leading)
