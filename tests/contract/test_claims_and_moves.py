"""What moves do to a claim, on every store: end it, keep it, or pass it by. No test here knows which store it runs on."""

from raceproof import Moved, Refused
from tests.contract.grounds import Ground
from tests.contract.jobs import ALL_FORMS, jobs, put
from tests.contract.noon import NOON, after


@ALL_FORMS
async def test_a_claim_goes_into_a_move_and_ends_with_it(ground: Ground, form: str) -> None:
    """The fence is in the write; what the claim wrote into the row is cleared."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    answer = await ground.db.move(job.moves["finish"], mine, set={"result": "42"})
    assert isinstance(answer, Moved)
    assert (answer.key, answer.before, answer.status) == ("a", "RUNNING", "DONE")
    row = ground.get(job, "a")
    assert (row["status"], row["result"]) == ("DONE", "42")
    cleared = job.claims["work"].form.cleared
    assert [row[name] for name in cleared] == [None] * len(cleared)
    assert await ground.db.claim(job.claims["work"], now=after(1000)) == []


async def test_without_a_move_a_claimed_row_stays_where_it_is(ground: Ground) -> None:
    """A claim can be nothing but a claim; a move away from where the row waits ends it."""
    job = jobs(ground, claim={"move": None, "at": ["QUEUED"], "back": None, "exhausted": None})
    await put(ground, job, "a")
    work = job.claims["work"]
    (mine,) = await ground.db.claim(work, by="ann", now=NOON)
    assert ground.get(job, "a")["status"] == "QUEUED"
    assert await ground.db.claim(work, now=NOON) == []
    assert (await ground.db.move(job.moves["start"], mine)).won
    assert ground.get(job, "a")["claimed_by"] is None


async def test_a_move_that_stays_in_the_claim_keeps_it(ground: Ground) -> None:
    """Only a move away from the claimed statuses ends a claim."""
    job = jobs(ground, claim={"move": None, "at": ["RUNNING", "CHECKED"], "back": None, "exhausted": None})
    await put(ground, job, "a", status="RUNNING")
    (mine,) = await ground.db.claim(job.claims["work"], by="ann", now=NOON)
    assert (await ground.db.move(job.moves["check"], mine, set={"result": "1"})).won
    assert ground.get(job, "a")["claimed_by"] == "ann"
    assert (await ground.db.move(job.moves["finish"], mine, set={"result": "2"})).won
    assert ground.get(job, "a")["claimed_by"] is None


async def test_a_claim_is_in_the_history(ground: Ground) -> None:
    """Who claimed, who took over, who gave back and who finished."""
    job = jobs(ground, history=True)
    await put(ground, job, "a")
    work = job.claims["work"]
    await ground.db.claim(work, by="ann", now=NOON)
    (bob,) = await ground.db.claim(work, by="bob", now=after(40))
    await ground.db.fail(bob, reason="no luck", now=after(41))
    (eve,) = await ground.db.claim(work, by="eve", now=after(60))
    await ground.db.move(job.moves["finish"], eve, now=after(61))
    entries = await ground.db.history(job, "a")
    assert [(e.move, e.outcome, e.before, e.after, e.actor, e.reason) for e in reversed(entries)] == [
        ("start", "moved", "QUEUED", "RUNNING", "ann", None),
        ("start", "claimed", "RUNNING", "RUNNING", "bob", None),
        ("requeue", "moved", "RUNNING", "QUEUED", "bob", "no luck"),
        ("start", "moved", "QUEUED", "RUNNING", "eve", None),
        ("finish", "moved", "RUNNING", "DONE", "eve", None),
    ]


async def test_a_plain_move_of_a_claimed_row_needs_no_claim(ground: Ground) -> None:
    """An operator may cancel; the holder is refused then, and does not bring the row back."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    assert (await ground.db.move(job.moves["give_up"], "a", by="operator")).won
    answer = await ground.db.move(job.moves["finish"], mine)
    assert isinstance(answer, Refused)
    assert answer.status == "DEAD"
