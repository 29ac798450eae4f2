"""The order of claims on a store that sorts rows by any column (P13): every SQL database, but not Redis.

Redis claims rows in the order in which they were offered, so these tests are not part of the whole contract.
"""

from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import jobs, put
from raceproof.testing.contract.peers_queues import MOVES, STATUSES


async def test_a_retry_may_change_the_place_of_a_job(ground: Ground) -> None:
    """Procrastinate test_retry_job with another priority: the row is found at its new place."""
    job = jobs(ground, moves=MOVES, statuses=STATUSES)
    await put(ground, job, "a", "b")
    (first,) = await ground.db.claim(job.claims["work"], 1, now=NOON)
    assert (await ground.db.move(job.moves["requeue"], first, set={"made_at": 9}, now=after(1))).won
    assert [one.key for one in await ground.db.claim(job.claims["work"], 2, now=after(2))] == ["b", "a"]


async def test_jobs_are_taken_by_priority_and_then_by_age(ground: Ground) -> None:
    """django-tasks test_priority_sort: highest first, and of equals the oldest."""
    job = jobs(ground, claim={"order_by": ["-priority", "made_at"]}, extra={"priority": "integer"})
    for made_at, (key, priority) in enumerate((("low", 1), ("high", 9), ("middle", 5), ("high too", 9))):
        ground.put(job, key, "QUEUED", made_at=made_at, priority=priority)
    taken = [(await ground.db.claim(job.claims["work"], 1, now=NOON))[0].key for _ in range(4)]
    assert taken == ["high", "high too", "middle", "low"]
