"""Rows that have had all their attempts are set aside by a claim that could have taken them, and by no other (L8)."""

from typing import Any

from raceproof import Event, Lifecycle, Spec, column, subscribed
from tests.contract.grounds import Ground
from tests.contract.jobs import ALL_FORMS, jobs, put
from tests.contract.noon import NOON, after


def impatient(job: Spec[str]) -> Spec[str]:
    """The same lifecycle, declared by somebody who tries once."""
    data: dict[str, Any] = job.to_dict()
    data["claims"]["work"]["cap"] = 1
    return Lifecycle.from_dict(data)


def two_ways(job: Spec[str]) -> Spec[str]:
    """The same lifecycle with a second claim of the same rows."""
    data: dict[str, Any] = job.to_dict()
    data["claims"]["other"] = data["claims"]["work"]
    return Lifecycle.from_dict(data)


@ALL_FORMS
async def test_a_claim_sets_aside_only_what_its_guards_let_it_have(ground: Ground, form: str) -> None:
    """The declared one, that of its move, and that of the call: the rows of others are not ended for them."""
    job = jobs(ground, form, claim={"where": [["owner", "=", "ann"]]})
    work = job.claims["work"]
    await put(ground, job, "bob's", owner="bob", attempts=3)
    await put(ground, job, "early", "late", owner="ann", attempts=3)
    told: list[Event] = []
    with subscribed(told.append):
        assert await ground.db.claim(work, 5, now=NOON, where=column("made_at") > 0) == []
    assert [ground.get(job, key)["status"] for key in ("bob's", "early", "late")] == [
        "QUEUED",
        "QUEUED",
        "DEAD",
    ]
    assert [(event.key, event.outcome) for event in told] == [("late", "set aside")]
    assert await ground.db.claim(work, 5, now=NOON) == []
    assert [ground.get(job, key)["status"] for key in ("bob's", "early")] == ["QUEUED", "DEAD"]


async def test_calls_with_other_guards_set_aside_other_rows(ground: Ground) -> None:
    """One after the other on the same connection."""
    job = jobs(ground)
    await put(ground, job, "a", "b", "c", attempts=3)
    for place, key in ((2, "c"), (0, "a")):
        assert await ground.db.claim(job.claims["work"], 5, now=NOON, where=column("made_at") == place) == []
        assert ground.get(job, key)["status"] == "DEAD"
    assert ground.get(job, "b")["status"] == "QUEUED"


async def test_a_row_that_rests_is_set_aside_when_it_has_rested(ground: Ground) -> None:
    """Whoever allows fewer attempts does not cut its rest short."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    await ground.db.fail(mine, delay=100, now=NOON)
    strict = impatient(job).claims["work"]
    assert await ground.db.claim(strict, 5, now=after(50)) == []
    assert ground.get(job, "a")["status"] == "QUEUED"
    assert await ground.db.claim(strict, 5, now=after(101)) == []
    assert ground.get(job, "a")["status"] == "DEAD"


async def test_a_row_rests_for_every_claim_that_could_take_it(ground: Ground) -> None:
    """Also for one that has heard of it by an offer alone, and not of the failure."""
    job = two_ways(jobs(ground))
    await put(ground, job, "a")
    await ground.db.offer(job.claims["other"], ["a"])
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    await ground.db.fail(mine, delay=100, now=NOON)
    assert await ground.db.claim(job.claims["other"], 5, now=after(50)) == []
    (again,) = await ground.db.claim(job.claims["other"], 5, now=after(101))
    assert again.attempt == 2


async def test_a_row_is_set_aside_when_it_is_the_first_of_its_line(ground: Ground) -> None:
    """Not before somebody has dealt with those before it."""
    job = jobs(ground, claim={"serial": "owner"})
    work = job.claims["work"]
    for number, (key, attempts) in enumerate([("a", 0), ("b", 3)]):
        ground.put(job, key, "QUEUED", made_at=number, owner="ann", attempts=attempts)
        await ground.db.offer(work, [key])
    (mine,) = await ground.db.claim(work, 5, now=NOON)
    assert (mine.key, ground.get(job, "b")["status"]) == ("a", "QUEUED")
    assert (await ground.db.move(job.moves["finish"], mine)).won
    assert await ground.db.claim(work, 5, now=NOON) == []
    assert ground.get(job, "b")["status"] == "DEAD"
