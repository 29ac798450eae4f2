"""The claims that a worker holds: renewed together, in good time, until the very end."""

import asyncio
from collections.abc import Iterable
from typing import Any

from raceproof.events import log
from raceproof.forms import Columns
from raceproof.outcome import Claim
from raceproof.store import AsyncStore


class Held:
    """Claims as they were given, and as they are now: a renewal may change the fence.

    Each is itself, not its row (P4): a worker that was cut off may have claimed the same row twice, and only the newer
    claim holds it.
    """

    def __init__(self, db: AsyncStore) -> None:
        self._db = db
        self._claims: dict[Claim[Any, Any], Claim[Any, Any]] = {}
        self.renewing: dict[Claim[Any, Any], Claim[Any, Any]] = {}
        """Those whose fence a renewal is changing."""
        self._renewed = asyncio.Event()

    def add(self, claims: Iterable[Claim[Any, Any]]) -> None:
        self._claims |= {one: one for one in claims}

    def all(self) -> list[Claim[Any, Any]]:
        return list(self._claims)

    def take(self, one: Claim[Any, Any]) -> Claim[Any, Any] | None:
        """The claim as it is now, no longer held here; None if it was lost meanwhile."""
        return self._claims.pop(one, None)

    def has(self, one: Claim[Any, Any]) -> bool:
        return one in self._claims

    async def settled(self, claims: Iterable[Claim[Any, Any]]) -> None:
        """Wait until the fences of these are known."""
        if any(one in self.renewing for one in claims):
            self._renewed.clear()
            await self._renewed.wait()

    async def renew(self, due: float) -> bool:
        """Renew all whose deadline is nearer than `due`; whether somebody else has taken some of them."""
        old = {first: now for first, now in self._claims.items() if now.deadline <= due}
        if not old:
            return False
        if not isinstance(next(iter(old)).move.form, Columns):
            self.renewing = old
        try:
            answers = await self._db.renew(list(old.values()))
            gone = [first for first, answer in zip(old, answers, strict=True) if self._is_lost(first, answer)]
            return bool(gone)
        finally:
            self.renewing = {}
            self._renewed.set()

    def _is_lost(self, first: Claim[Any, Any], answer: Any) -> bool:
        """Keep what a renewal brought, unless the item was finished meanwhile."""
        if first not in self._claims:
            return False
        if isinstance(answer, Claim):
            self._claims[first] = answer
        elif answer.outcome in ("lost", "missing"):
            log.warning("%s", answer)
            del self._claims[first]
            return True
        return False
