"""How many may do something at once, over all processes: so many slots, each a lease of its own."""

import time
from dataclasses import dataclass

from raceproof.errors import DeclarationError
from raceproof.leases import Leading, Lease
from raceproof.spec import check_seconds, is_count
from raceproof.store import AsyncStore


@dataclass(frozen=True)
class Limit:
    """At most `most` at once: `Limit("vetting", 1)`. A slot whose holder has died is free after `seconds`."""

    name: str
    most: int
    seconds: float = 30.0
    table: str = "raceproof_lease"

    def __post_init__(self) -> None:
        if not is_count(self.most):
            raise DeclarationError(
                f"limit {self.name}: most={self.most!r} is not a number of slots; give 1 or more"
            )
        check_seconds(f"limit {self.name}: seconds", self.seconds)

    async def take(self, db: AsyncStore, by: str) -> "Slot | None":
        """A slot, or None if all are taken."""
        for number in range(self.most):
            lease = Lease(f"{self.name}/{number}", self.seconds, self.table)
            answer = await db.lead(lease, f"{by}/{number}")
            if isinstance(answer, Leading):
                return Slot(db, answer)
        return None


class Slot:
    """One of the slots of a limit, kept up by whoever holds it."""

    def __init__(self, db: AsyncStore, leading: Leading) -> None:
        self._db = db
        self._leading = leading

    @property
    def is_ours(self) -> bool:
        """Whether nobody else can have it yet, by the local clock."""
        return time.monotonic() < self._leading.deadline

    async def keep(self) -> bool:
        """Whether it is still ours; renewed when a third of it is over."""
        if self._leading.deadline - time.monotonic() > self._leading.move.seconds * 2 / 3:
            return True
        answer = await self._db.keep_leading(self._leading)
        if isinstance(answer, Leading):
            self._leading = answer
            return True
        return False

    async def free(self) -> None:
        await self._db.step_down(self._leading)
