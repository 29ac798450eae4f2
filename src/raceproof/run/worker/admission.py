"""Whether a worker may begin items: only while this process leads, if it has to, and with a slot, if they are counted."""

from raceproof.declare.predicate import Predicate
from raceproof.kernel.events import log
from raceproof.run.leader import Leader, NotLeading
from raceproof.run.limit import ConcurrencyLimit, Slot
from raceproof.store import AsyncStore


class Admission:
    """What a worker needs beside its claims: leadership, and a slot of the limit."""

    def __init__(self, db: AsyncStore, by: str, limit: ConcurrencyLimit | None, leader: Leader | None) -> None:
        self._db = db
        self._by = by
        self._limit = limit
        self._leader = leader
        self.slot: Slot | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to be lost."""
        return self._limit is not None or self._leader is not None

    def may_begin(self) -> bool:
        """P11: asked before each item, by threads too: it looks at the local clock and waits for nothing."""
        if self._leader is not None and not self._leader.active:
            return False
        return self.has_slot

    @property
    def has_slot(self) -> bool:
        """Whether it is one of those who may work now, over all processes."""
        slot = self.slot
        return self._limit is None or (slot is not None and slot.is_ours)

    def guards(self) -> tuple[Predicate, ...] | None:
        """What must hold for a row to be claimed; None while nothing may be (P11): this process does not lead."""
        if self._leader is None:
            return ()
        try:
            return (self._leader.guard,)
        except NotLeading:
            return None

    async def take_slot(self, limit: ConcurrencyLimit) -> None:
        """Take a slot, if one is free."""
        self.slot = await limit.take(self._db, self._by)

    async def keep_slot(self) -> None:
        """Renew the slot in good time, or learn that another process may have it."""
        slot = self.slot
        if slot is not None and not await slot.keep() and self.slot is slot:
            log.warning("%s has lost its slot of limit %s", self._by, self._limit and self._limit.name)
            self.slot = None

    async def free_slot(self) -> None:
        """Free the slot for the next process; if the store does not answer, it is free when its lease ends."""
        slot, self.slot = self.slot, None
        if slot is None:
            return
        try:
            await slot.free()
        except Exception as error:
            log.warning("%s could not free its slot: %s: %s", self._by, type(error).__name__, error)
