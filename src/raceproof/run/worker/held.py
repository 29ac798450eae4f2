"""The claims that a worker holds: renewed together, in good time, until the very end."""

import asyncio
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.declare.claim_forms import ClaimColumns
from raceproof.declare.spec import Move
from raceproof.declare.statuses import text_of_status
from raceproof.kernel.answers import Lost
from raceproof.kernel.events import log
from raceproof.store import AsyncStore


class Held:
    """Claims as they were given, and as they are now: a renewal may change the fence.

    Each is itself, not its row (P4): a worker that was cut off may have claimed the same row twice, and only the newer
    claim holds it.
    """

    def __init__(self, db: AsyncStore, finish: Move[Any]) -> None:
        self._db = db
        self._finish = finish
        self._claims: dict[Claim[Any, Any], Claim[Any, Any]] = {}
        self.renewing: dict[Claim[Any, Any], Claim[Any, Any]] = {}
        """Those whose fence a renewal is changing."""
        self._renewed = asyncio.Event()

    def add(self, claims: Iterable[Claim[Any, Any]]) -> None:
        self._claims |= {one: one for one in claims}

    def all(self) -> list[Claim[Any, Any]]:
        return list(self._claims)

    def take(self, some: Iterable[Claim[Any, Any]]) -> dict[Claim[Any, Any], Claim[Any, Any]]:
        """Those of these that were not lost meanwhile, with the claim as it is now; they are no longer held here."""
        take = self._claims.pop
        return {one: now for one in some if (now := take(one, None)) is not None}

    def has(self, one: Claim[Any, Any]) -> bool:
        return one in self._claims

    async def settled(self, claims: Iterable[Claim[Any, Any]]) -> None:
        """Wait until the fences of these are known."""
        if any(one in self.renewing for one in claims):
            self._renewed.clear()
            await self._renewed.wait()

    async def renew(self, due: float) -> bool:
        """Renew all whose deadline is nearer than `due`; whether some of them were taken over."""
        old = {first: now for first, now in self._claims.items() if now.deadline <= due}
        if not old:
            return False
        if not isinstance(next(iter(old)).declared.form, ClaimColumns):
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
        elif isinstance(answer, Lost) and self._is_finished(first, answer):
            # P6: who runs it has finished it, and says so in the end; there is nothing to renew any more
            self._claims[first] = replace(self._claims[first], deadline=math.inf)
        elif answer.outcome in ("lost", "missing"):
            log.warning("%s", answer)
            del self._claims[first]
            return True
        return False

    def _is_finished(self, first: Claim[Any, Any], answer: Lost[Any]) -> bool:
        """Whether the row is where its finish leads, and no other process has had it, as far as its form can say."""
        return text_of_status(answer.status) == self._finish.target and answer.fence in (
            None,
            self._claims[first].fence,
        )
