"""What users of Procrastinate, django-tasks and Celery expect."""

import pytest

from raceproof import Lost, NotReached, column
from raceproof.declare import Spec
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import jobs

STATUSES = ["QUEUED", "RUNNING", "DONE", "DEAD"]
MOVES = {
    "start": {"from": ["QUEUED"], "to": "RUNNING"},
    "requeue": {"from": ["RUNNING"], "to": "QUEUED", "sets": ["owner", "made_at"]},
    "finish": {"from": ["RUNNING"], "to": "DONE", "sets": ["result"]},
    "give_up": {"from": ["QUEUED", "RUNNING"], "to": "DEAD"},
}


def locked(ground: Ground) -> Spec[str]:
    """Jobs whose lock is the column `owner`, which a retry may change."""
    return jobs(ground, claim={"ordering_key": "owner"}, moves=MOVES, statuses=STATUSES)


async def put(ground: Ground, job: Spec[str], **owners: str | None) -> None:
    for number, (key, owner) in enumerate(owners.items()):
        ground.put(job, key, "QUEUED", made_at=number, owner=owner)
        await ground.db.offer(job.claims["work"], [key])


async def test_of_jobs_with_the_same_lock_one_runs_at_a_time(ground: Ground) -> None:
    """Procrastinate test_fetch_job_locked_job: the next one runs when the first has ended."""
    job = locked(ground)
    await put(ground, job, a="x", b="x", c="y")
    first, other = await ground.db.claim(job.claims["work"], 10, now=NOON)
    assert (first.key, other.key) == ("a", "c")
    assert await ground.db.claim(job.claims["work"], 10, now=after(1)) == []
    await ground.db.move(job.moves["finish"], first, now=after(2))
    assert [one.key for one in await ground.db.claim(job.claims["work"], 10, now=after(3))] == ["b"]


async def test_jobs_without_a_lock_run_side_by_side(ground: Ground) -> None:
    """Procrastinate: a NULL lock locks nothing."""
    job = locked(ground)
    await put(ground, job, a=None, b=None)
    assert [one.key for one in await ground.db.claim(job.claims["work"], 10, now=NOON)] == ["a", "b"]


async def test_a_retry_may_change_the_lock_of_a_job(ground: Ground) -> None:
    """Procrastinate test_retry_job with another lock: a column that the move back sets."""
    job = locked(ground)
    await put(ground, job, a="x", b="x")
    (first,) = await ground.db.claim(job.claims["work"], 10, now=NOON)
    back = await ground.db.move(job.moves["requeue"], first, set={"owner": "z"}, now=after(1))
    assert back.won
    await ground.db.offer(job.claims["work"], ["a"])
    claims = await ground.db.claim(job.claims["work"], 10, now=after(2))
    assert sorted((one.key, one.attempt) for one in claims) == [("a", 2), ("b", 1)]


async def test_attempts_are_counted_and_their_number_is_limited(ground: Ground) -> None:
    """Procrastinate attempts, max_attempts: a failed job backs off, and is dead-lettered after its last attempt."""
    job = jobs(ground)
    ground.put(job, "a", "QUEUED", made_at=0)
    await ground.db.offer(job.claims["work"], ["a"])
    seen = []
    for number in range(3):
        (claim,) = await ground.db.claim(job.claims["work"], now=after(100 * number))
        seen.append(claim.attempt)
        (given,) = await ground.db.fail(claim, "no answer", now=after(100 * number + 1))
    assert (seen, given.outcome) == ([1, 2, 3], "dead-lettered")
    assert ground.get(job, "a")["status"] == "DEAD"


async def test_a_job_that_another_worker_has_finished_cannot_be_finished_again(ground: Ground) -> None:
    """Procrastinate: finishing a job twice is an error; `must` raises it."""
    job = jobs(ground)
    ground.put(job, "a", "QUEUED", made_at=0)
    await ground.db.offer(job.claims["work"], ["a"])
    (late,) = await ground.db.claim(job.claims["work"], by="one", now=NOON)
    (next_one,) = await ground.db.claim(job.claims["work"], by="two", now=after(31))
    (await ground.db.move(job.moves["finish"], next_one, set={"result": "two"}, now=after(32))).must()
    answer = await ground.db.move(job.moves["finish"], late, set={"result": "one"}, now=after(33))
    assert isinstance(answer, Lost)
    with pytest.raises(NotReached):
        answer.must()
    assert ground.get(job, "a")["result"] == "two"


async def test_a_job_that_is_held_is_passed_over_and_the_next_one_is_taken(ground: Ground) -> None:
    """django-tasks test_skips_locked: no worker waits for another."""
    job = jobs(ground)
    for number, key in enumerate("abc"):
        ground.put(job, key, "QUEUED", made_at=number)
        await ground.db.offer(job.claims["work"], [key])
    assert [one.key for one in await ground.db.claim(job.claims["work"], 1, by="one", now=NOON)] == ["a"]
    assert [one.key for one in await ground.db.claim(job.claims["work"], 5, by="two", now=NOON)] == ["b", "c"]


async def test_jobs_that_were_offered_are_taken_in_that_order(ground: Ground) -> None:
    """Every store can keep this order."""
    job = jobs(ground)
    await put(ground, job, a=None, b=None, c=None)
    taken = [(await ground.db.claim(job.claims["work"], 1, now=NOON))[0].key for _ in range(3)]
    assert taken == ["a", "b", "c"]


async def test_a_worker_takes_the_jobs_of_its_own_queue(ground: Ground) -> None:
    """django-tasks --queue-name, Procrastinate queues: a guard of the call selects a queue."""
    job = jobs(ground)
    for number, (key, owner) in enumerate((("a", "mail"), ("b", "images"), ("c", "mail"))):
        ground.put(job, key, "QUEUED", made_at=number, owner=owner)
        await ground.db.offer(job.claims["work"], [key])
    mail = await ground.db.claim(job.claims["work"], 10, where=column("owner") == "mail", now=NOON)
    assert [one.key for one in mail] == ["a", "c"]
