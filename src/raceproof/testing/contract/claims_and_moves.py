"""What moves do to a claim on every store: end it, keep it, or ignore it."""

from raceproof import Lost, Moved
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put


@ALL_FORMS
async def test_a_claim_goes_into_a_move_and_ends_with_it(ground: Ground, form: str) -> None:
    """The write carries the fence, and clears the claim's columns."""
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
    """A claim need not move its row; a move away from the claimed statuses ends it."""
    job = jobs(ground, claim={"move": None, "at": ["QUEUED"], "back": None, "dead_letter": None})
    await put(ground, job, "a")
    work = job.claims["work"]
    (mine,) = await ground.db.claim(work, by="ann", now=NOON)
    assert ground.get(job, "a")["status"] == "QUEUED"
    assert await ground.db.claim(work, now=NOON) == []
    assert (await ground.db.move(job.moves["start"], mine)).won
    assert ground.get(job, "a")["claimed_by"] is None


async def test_a_move_that_stays_in_the_claim_keeps_it(ground: Ground) -> None:
    """Only a move away from the claimed statuses ends a claim."""
    job = jobs(ground, claim={"move": None, "at": ["RUNNING", "CHECKED"], "back": None, "dead_letter": None})
    await put(ground, job, "a", status="RUNNING")
    (mine,) = await ground.db.claim(job.claims["work"], by="ann", now=NOON)
    assert (await ground.db.move(job.moves["check"], mine, set={"result": "1"})).won
    assert ground.get(job, "a")["claimed_by"] == "ann"
    assert (await ground.db.move(job.moves["finish"], mine, set={"result": "2"})).won
    assert ground.get(job, "a")["claimed_by"] is None


@ALL_FORMS
async def test_a_row_that_its_holder_moves_back_can_be_claimed_at_once(ground: Ground, form: str) -> None:
    """Its claim has ended, long before the lease would."""
    job = jobs(ground, form)
    await put(ground, job, "a", "b")
    work, requeue = job.claims["work"], job.moves["requeue"]
    a, b = await ground.db.claim(work, 2, by="ann", now=NOON)
    assert (await ground.db.move(requeue, a, now=after(1))).won
    assert [answer.won for answer in await ground.db.move_many(requeue, [b])] == [True]
    again = await ground.db.claim(work, 2, by="bob", now=after(2))
    assert sorted(one.key for one in again) == ["a", "b"]


@ALL_FORMS
async def test_who_has_finished_can_neither_renew_nor_give_back(ground: Ground, form: str) -> None:
    """P5: the row has left the claimed statuses, and none of these calls brings it back."""
    job = jobs(ground, form)
    await put(ground, job, "a", "b")
    ours = await ground.db.claim(job.claims["work"], 2, now=NOON)
    assert (await ground.db.move(job.moves["finish"], ours[0])).won
    assert (await ground.db.move(job.moves["give_up"], "b", by="operator")).won
    for call in (ground.db.renew, ground.db.release, ground.db.fail):
        answers = await call(ours, now=after(1))
        assert [(type(one), one.status) for one in answers] == [(Lost, "DONE"), (Lost, "DEAD")]
    assert [ground.get(job, key)["status"] for key in "ab"] == ["DONE", "DEAD"]


async def test_each_holder_is_named_for_the_row_that_it_gave_back(ground: Ground) -> None:
    """All in one call, each in the history under its own name."""
    job = jobs(ground, history=True)
    await put(ground, job, "a", "b", "c")
    work = job.claims["work"]
    claims = [(await ground.db.claim(work, by=name, now=NOON))[0] for name in ("ann", "bob", "eve")]
    await ground.db.release(claims[:2], now=after(1))
    claims[:2] = [(await ground.db.claim(work, by=name, now=after(2)))[0] for name in ("ann", "bob")]
    await ground.db.fail(claims, now=after(3))
    told = {one.key: [entry.actor for entry in await ground.db.history(job, one.key)] for one in claims}
    assert told == {"a": ["ann"] * 4, "b": ["bob"] * 4, "c": ["eve"] * 2}


async def test_a_claim_is_in_the_history(ground: Ground) -> None:
    """Who claimed, took over, gave back and finished."""
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
    """An operator may cancel: that ends the claim, and the holder loses the row."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    assert (await ground.db.move(job.moves["give_up"], "a", by="operator")).won
    answer = await ground.db.move(job.moves["finish"], mine)
    assert isinstance(answer, Lost)
    assert answer.status == "DEAD"
