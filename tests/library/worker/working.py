"""What the tests of the worker share: rows to work on, a worker for them, and what has become of them."""

import asyncio
from collections import Counter
from typing import Any

from raceproof import AsyncStore, Claim, Worker
from raceproof.claims.answers import HeldClaim
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import Ground


async def put(ground: Ground, job: Spec[str], count: int) -> list[str]:
    keys = [f"j{number:03d}" for number in range(count)]
    for number, key in enumerate(keys):
        ground.put(job, key, "QUEUED", made_at=number)
    await ground.db.offer(job.claims["work"], keys)
    return keys


def db(ground: Ground) -> AsyncStore:
    assert isinstance(ground.db.store, AsyncStore)
    return ground.db.store


def worker(ground: Ground, job: Spec[str], handler: Any, **options: Any) -> Worker:
    return Worker(db(ground), job.claims["work"], handler, finish=job.moves["finish"], **options)


async def until_renewed(ground: Ground, job: Spec[str], key: str) -> None:
    """Until the row has been held for longer than its lease; nobody else gets it meanwhile."""
    work = job.claims["work"]
    before: HeldClaim | None = None
    while True:
        (now,) = [one for one in await ground.db.claims(work) if one.key == key]
        before = before or now
        assert now.holder == before.holder
        if (now.until - before.until).total_seconds() > work.lease:
            return
        assert not (await ground.db.claim_one(work, key, by="thief")).won
        await asyncio.sleep(0)


def statuses(ground: Ground, job: Spec[str], keys: list[str]) -> Counter[Any]:
    return Counter(ground.get(job, key)["status"] for key in keys)


def seen_by(seen: list[str]) -> Any:
    """A plain handler that keeps the keys of what it was given."""

    def handle(claim: Claim[Any, Any]) -> None:
        seen.append(claim.key)

    return handle
