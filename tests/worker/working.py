"""What the tests of the worker share: rows to work on, a worker for them, and what has become of them."""

from collections import Counter
from typing import Any

from raceproof import AsyncStore, Spec, Worker
from tests.contract.grounds import Ground


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


def statuses(ground: Ground, job: Spec[str], keys: list[str]) -> Counter[Any]:
    return Counter(ground.get(job, key)["status"] for key in keys)
