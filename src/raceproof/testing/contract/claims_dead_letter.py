"""A row without attempts left is dead-lettered by a claim that could have taken it, and by no other (L8)."""

from typing import Any

from raceproof import Lifecycle, Lost, column
from raceproof.declare import Spec
from raceproof.kernel.events import Event, subscribed
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put


def impatient(job: Spec[str]) -> Spec[str]:
    """The same lifecycle, declared with a single attempt."""
    data: dict[str, Any] = job.to_dict()
    data["claims"]["work"]["max_attempts"] = 1
    return Lifecycle.from_dict(data)


def two_ways(job: Spec[str]) -> Spec[str]:
    """The same lifecycle with a second claim of the same rows."""
    data: dict[str, Any] = job.to_dict()
    data["claims"]["other"] = data["claims"]["work"]
    return Lifecycle.from_dict(data)


@ALL_FORMS
async def test_a_claim_sets_aside_only_what_its_guards_let_it_have(ground: Ground, form: str) -> None:
    """Guards of the declaration, of the move and of the call: other rows are not ended."""
    job = jobs(ground, form, claim={"where": [["owner", "=", "ann"]]})
    work = job.claims["work"]
    await put(ground, job, "bob's", owner="bob", attempts=3)
    await put(ground, job, "early", "late", owner="ann", attempts=3)
    told: list[Event] = []
    with subscribed(told.append):
        assert await ground.db.claim(work, 5, now=NOON, where=column("made_at") > 0) == []
    assert [ground.get(job, key)["status"] for key in ("bob's", "early", "late")] == ["QUEUED", "QUEUED", "DEAD"]
    assert [(event.key, event.outcome) for event in told] == [("late", "dead-lettered")]
    assert await ground.db.claim(work, 5, now=NOON) == []
    assert [ground.get(job, key)["status"] for key in ("bob's", "early")] == ["QUEUED", "DEAD"]


async def test_calls_with_other_guards_dead_letter_other_rows(ground: Ground) -> None:
    """One after the other on one connection."""
    job = jobs(ground)
    await put(ground, job, "a", "b", "c", attempts=3)
    for place, key in ((2, "c"), (0, "a")):
        assert await ground.db.claim(job.claims["work"], 5, now=NOON, where=column("made_at") == place) == []
        assert ground.get(job, key)["status"] == "DEAD"
    assert ground.get(job, "b")["status"] == "QUEUED"


async def test_a_row_that_rests_is_dead_letter_when_it_has_rested(ground: Ground) -> None:
    """A claim with a lower max_attempts does not cut the delay short."""
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
    """Also if it only knows the row from an offer, not from the failure."""
    job = two_ways(jobs(ground))
    await put(ground, job, "a")
    await ground.db.offer(job.claims["other"], ["a"])
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    await ground.db.fail(mine, delay=100, now=NOON)
    assert await ground.db.claim(job.claims["other"], 5, now=after(50)) == []
    (again,) = await ground.db.claim(job.claims["other"], 5, now=after(101))
    assert again.attempt == 2


@ALL_FORMS
async def test_a_row_that_is_held_on_its_last_attempt_is_not_dead_lettered(ground: Ground, form: str) -> None:
    """P5: nor one whose last attempt succeeded."""
    job = jobs(ground, form)
    work = job.claims["work"]
    await put(ground, job, "a", attempts=2)
    (mine,) = await ground.db.claim(work, now=NOON)
    assert await ground.db.claim(work, 5, now=after(10)) == []
    assert ground.get(job, "a")["status"] == "RUNNING"
    assert (await ground.db.move(job.moves["finish"], mine)).won
    assert await ground.db.claim(work, 5, now=after(1000)) == []
    assert ground.get(job, "a")["status"] == "DONE"


@ALL_FORMS
async def test_a_row_that_was_dead_letter_is_nobody_s(ground: Ground, form: str) -> None:
    """The claim's columns are cleared, so the holder cannot bring it back."""
    job = jobs(ground, form)
    work = job.claims["work"]
    await put(ground, job, "a", attempts=2)
    (late,) = await ground.db.claim(work, by="late", now=NOON)
    assert await ground.db.claim(work, 5, now=after(31)) == []
    row = ground.get(job, "a")
    assert (row["status"], {row[name] for name in work.form.cleared}) == ("DEAD", {None})
    assert not (await ground.db.move(job.moves["finish"], late)).won


@ALL_FORMS
async def test_the_last_failure_of_a_late_holder_is_lost(ground: Ground, form: str) -> None:
    """P5: a claim with a lower max_attempts does not end another process's work."""
    job = jobs(ground, form)
    strict = impatient(job).claims["work"]
    await put(ground, job, "a")
    (late,) = await ground.db.claim(strict, by="late", now=NOON)
    (current,) = await ground.db.claim(job.claims["work"], by="next", now=after(31))
    (answer,) = await ground.db.fail(late, now=after(32))
    assert isinstance(answer, Lost)
    assert ground.get(job, "a")["status"] == "RUNNING"
    assert (await ground.db.move(job.moves["finish"], current)).won


async def test_a_claim_sets_aside_the_rows_of_its_own_tenant_alone(ground: Ground) -> None:
    """Rows of other tenants are ended by their own claims."""
    job = jobs(ground, tenant="shop")
    for shop in ("red", "blue"):
        ground.put(job, (shop, "a"), "QUEUED", made_at=1, attempts=3)
        await ground.db.for_tenant(shop).offer(job.claims["work"], ["a"])
    assert await ground.db.for_tenant("red").claim(job.claims["work"], 5, now=NOON) == []
    assert [ground.get(job, (shop, "a"))["status"] for shop in ("red", "blue")] == ["DEAD", "QUEUED"]


async def test_a_row_is_dead_letter_when_it_is_the_first_of_its_line(ground: Ground) -> None:
    """The rows before it, with the same ordering key, come first."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    work = job.claims["work"]
    for number, (key, attempts) in enumerate([("a", 0), ("b", 3)]):
        ground.put(job, key, "QUEUED", made_at=number, owner="ann", attempts=attempts)
        await ground.db.offer(work, [key])
    (mine,) = await ground.db.claim(work, 5, now=NOON)
    assert (mine.key, ground.get(job, "b")["status"]) == ("a", "QUEUED")
    assert (await ground.db.move(job.moves["finish"], mine)).won
    assert await ground.db.claim(work, 5, now=NOON) == []
    assert ground.get(job, "b")["status"] == "DEAD"
