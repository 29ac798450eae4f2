"""The claims that a worker holds: renewed together, in good time, until the very end."""

from collections.abc import Iterable
from typing import Any

from raceproof.events import log
from raceproof.outcome import Claim
from raceproof.store import AsyncStore


class Held:
    """Claims by key. A renewal may change the fence, so what is held is asked for here when it is finished."""

    def __init__(self, db: AsyncStore) -> None:
        self._db = db
        self._claims: dict[Any, Claim[Any, Any]] = {}

    def add(self, claims: Iterable[Claim[Any, Any]]) -> None:
        for one in claims:
            self._claims[one.tenant, one.key] = one

    def all(self) -> list[Claim[Any, Any]]:
        return list(self._claims.values())

    def take(self, one: Claim[Any, Any]) -> Claim[Any, Any] | None:
        """The claim as it is now, no longer held here; None if it was lost meanwhile."""
        return self._claims.pop((one.tenant, one.key), None)

    def has(self, one: Claim[Any, Any]) -> bool:
        return (one.tenant, one.key) in self._claims

    async def renew(self, due: float) -> list[Claim[Any, Any]]:
        """Renew all whose deadline is nearer than `due`; those that somebody else has taken come back."""
        old = [one for one in self._claims.values() if one.deadline <= due]
        if not old:
            return []
        gone = []
        for before, answer in zip(old, await self._db.renew(old), strict=True):
            place = (before.tenant, before.key)
            if self._claims.get(place) is not before:
                continue  # finished while it was renewed
            if isinstance(answer, Claim):
                self._claims[place] = answer
            elif answer.outcome in ("lost", "missing"):
                log.warning("%s", answer)
                del self._claims[place]
                gone.append(before)
        return gone
