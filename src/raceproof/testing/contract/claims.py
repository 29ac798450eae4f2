"""What a claim promises on every store (L7, L8, L14; P3, P4, P5, P13)."""

from datetime import datetime
from typing import Any

import pytest

from raceproof import Claim, DeadLettered, Lost, Missing, Released, Taken, column
from raceproof.claims.request import claim_request
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import Event, subscribed
from raceproof.testing.contract.clock import NOON, after, answered_late
from raceproof.testing.contract.grounds import Caller, Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put


@ALL_FORMS
async def test_rows_are_claimed_in_order_and_each_only_once(ground: Ground, form: str) -> None:
    """Two claims never share a row, and the oldest come first."""
    job = jobs(ground, form)
    await put(ground, job, "c", "a", "b")
    first = await ground.db.claim(job.claims["work"], 2, by="ann", now=NOON)
    second = await ground.db.claim(job.claims["work"], 2, by="bob", now=NOON)
    assert [one.key for one in first] == ["c", "a"]
    assert [one.key for one in second] == ["b"]
    assert await ground.db.claim(job.claims["work"], 2, by="eve", now=NOON) == []
    assert {(one.by, one.attempt, one.before, one.taken_over) for one in first} == {("ann", 1, "QUEUED", False)}
    row = ground.get(job, "c")
    assert (row["status"], row["attempts"], row["rev"]) == ("RUNNING", "1", "1")


@ALL_FORMS
async def test_a_stale_claim_is_taken_over_and_its_holder_can_write_nothing_more(ground: Ground, form: str) -> None:
    """P3, P4, P5: after the lease another caller gets the row, and the late holder learns that it lost it."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    work = job.claims["work"]
    (late,) = await ground.db.claim(work, by="late", now=NOON)
    assert await ground.db.claim(work, by="soon", now=after(29.9)) == []
    (current,) = await ground.db.claim(work, by="next", now=after(30.1))
    assert (current.key, current.attempt, current.before, current.taken_over) == ("a", 2, "RUNNING", True)
    assert current.fence != late.fence
    for answer in (
        await ground.db.move(job.moves["finish"], late, set={"result": "late"}),
        *await ground.db.move_many(job.moves["finish"], [late]),
        *await ground.db.renew(late, now=after(31)),
        *await ground.db.release(late, now=after(31)),
        *await ground.db.fail(late, now=after(31)),
    ):
        assert isinstance(answer, Lost), answer
        assert (answer.key, answer.won) == ("a", False)
    assert ground.get(job, "a")["status"] == "RUNNING"
    assert (await ground.db.move(job.moves["finish"], current, set={"result": "kept"})).won
    assert ground.get(job, "a")["result"] == "kept"


@ALL_FORMS
async def test_a_renewed_claim_is_held_for_another_lease(ground: Ground, form: str) -> None:
    """Use the claim that `renew` returns."""
    job = jobs(ground, form)
    await put(ground, job, "a", "b")
    work = job.claims["work"]
    claims = await ground.db.claim(work, 2, by="ann", now=NOON)
    renewed = await ground.db.renew(claims, now=after(20))
    assert all(isinstance(one, Claim) for one in renewed)
    assert [one.key for one in renewed] == ["a", "b"]
    assert await ground.db.claim(work, 2, by="bob", now=after(49)) == []
    finished = await ground.db.move_many(job.moves["finish"], renewed, set={"result": "1"})
    assert [answer.outcome for answer in finished] == ["moved", "moved"]


@ALL_FORMS
async def test_a_late_holder_whom_nobody_replaced_may_still_finish(ground: Ground, form: str) -> None:
    """No other claim has a newer fence, so the work is not wasted."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    assert isinstance((await ground.db.renew(mine, now=after(3000)))[0], Claim)


async def test_a_fence_is_not_behind_the_clock_of_the_store(ground: Ground) -> None:
    """P4: after a failover that lost the last claims, their fences do not come back."""
    job = jobs(ground)
    await put(ground, job, "new", "another")
    await put(ground, job, "forgotten", fence=1)
    work = job.claims["work"]
    claims = [await ground.db.claim_one(work, "another", now=NOON), *await ground.db.claim(work, 2, now=NOON)]
    assert [one.key for one in claims] == ["another", "new", "forgotten"]
    assert {one.fence for one in claims} == {int(NOON.timestamp() * 1_000_000)}


async def test_a_fence_grows_also_when_the_clock_of_the_store_goes_back(ground: Ground) -> None:
    """P4: otherwise a late holder would pass for the new one."""
    job = jobs(ground)
    await put(ground, job, "a")
    work = job.claims["work"]
    (late,) = await ground.db.claim(work, now=NOON)
    await ground.db.release(late, now=after(-10))
    (current,) = await ground.db.claim(work, now=after(-9))
    assert current.fence > late.fence
    assert isinstance(await ground.db.move(job.moves["finish"], late), Lost)


async def test_a_renewed_timestamp_grows_also_when_the_clock_of_the_store_goes_back(ground: Ground) -> None:
    """P4: the timestamp is the fence, so it must change; and a renewal never shortens a claim."""
    job = jobs(ground, "timestamp")
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    (kept,) = await ground.db.renew(mine, now=after(-10))
    assert str(kept.fence) > str(mine.fence)
    assert await ground.db.claim(job.claims["work"], now=after(29)) == []


async def test_a_claim_is_counted_from_before_the_question(ground: Ground) -> None:
    """P3: however late the answer comes, the holder's deadline is not after the store's."""
    job = jobs(ground)
    await put(ground, job, "a", "b")
    work = job.claims["work"]
    (first,) = await ground.db.claim(work, where=column("job_id") == "a")
    driver: Any = ground.db.store.driver
    claims = driver.programs.claims
    for program in (claims.acquire(claim_request(work, limit=1)), claims.renew([first], work.lease, None, "token")):
        (answer,), sent = await Caller(driver).run(answered_late(program))
        assert isinstance(answer, Claim)
        assert answer.deadline <= sent + work.lease


@ALL_FORMS
async def test_a_released_row_can_be_claimed_at_once_and_costs_no_attempt(ground: Ground, form: str) -> None:
    """The released claim is lost, and the row can be claimed at once."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    work = job.claims["work"]
    (mine,) = await ground.db.claim(work, by="ann", now=NOON)
    (given,) = await ground.db.release(mine, now=after(1))
    assert isinstance(given, Released)
    assert (given.key, given.status) == ("a", "QUEUED")
    assert (ground.get(job, "a")["status"], ground.get(job, "a")["attempts"]) == ("QUEUED", "0")
    for answer in (*await ground.db.renew(mine, now=after(2)), *await ground.db.release(mine, now=after(2))):
        assert isinstance(answer, Lost)
    assert isinstance(await ground.db.move(job.moves["finish"], mine), Lost)
    (again,) = await ground.db.claim(work, by="bob", now=after(3))
    assert again.attempt == 1


async def test_whatever_is_said_of_a_failure_it_is_written(ground: Ground) -> None:
    """The reason comes from outside; a text that the store cannot take does not keep the row held."""
    job = jobs(ground, history=True)
    await put(ground, job, "a")
    work, bad = job.claims["work"], "400 \0 \udc80 " + "x" * 1000
    for attempt, expected in enumerate(["released", "released", "dead-lettered"]):
        (one,) = await ground.db.claim(work, now=after(100 * attempt))
        (given,) = await ground.db.fail(one, reason=bad, now=after(100 * attempt))
        assert given.outcome == expected
    reasons = [entry.reason for entry in await ground.db.history(job, "a") if entry.reason]
    assert len(reasons) == 3
    assert all(reason.startswith("400 ") for reason in reasons)


@ALL_FORMS
async def test_a_failed_row_rests_longer_each_time_and_is_dead_letter_in_the_end(ground: Ground, form: str) -> None:
    """One second, two seconds, and no more after the third attempt."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    work = job.claims["work"]
    (one,) = await ground.db.claim(work, now=NOON)
    (given,) = await ground.db.fail(one, reason="no luck", now=NOON)
    assert isinstance(given, Released)
    assert given.delay == 1.0
    assert await ground.db.claim(work, now=after(0.9)) == []
    (two,) = await ground.db.claim(work, now=after(1.1))
    (given,) = await ground.db.fail(two, now=after(2))
    assert (given.delay, two.attempt) == (2.0, 2)
    (three,) = await ground.db.claim(work, now=after(4.1))
    (ended,) = await ground.db.fail(three, reason="never", now=after(5))
    assert isinstance(ended, DeadLettered)
    assert (ended.status, ended.attempt) == ("DEAD", 3)
    assert ground.get(job, "a")["status"] == "DEAD"
    assert await ground.db.claim(work, now=after(5000)) == []


@ALL_FORMS
async def test_a_row_that_kills_its_workers_is_dead_lettered_by_the_next_claim(ground: Ground, form: str) -> None:
    """The claim itself counts, so a crash costs an attempt."""
    job = jobs(ground, form)
    await put(ground, job, "poison", "good")
    work = job.claims["work"]
    told: list[Event] = []
    for attempt in range(3):
        claims = await ground.db.claim(work, 1, now=after(attempt * 40), where=column("job_id") == "poison")
        assert [one.attempt for one in claims] == [attempt + 1]
    with subscribed(told.append):
        claims = await ground.db.claim(work, 5, now=after(200))
    assert [one.key for one in claims] == ["good"]
    assert ground.get(job, "poison")["status"] == "DEAD"
    assert [(event.key, event.outcome) for event in told] == [("good", "claimed"), ("poison", "dead-lettered")]


@ALL_FORMS
async def test_one_row_can_be_claimed_by_its_key_or_says_why_not(ground: Ground, form: str) -> None:
    """Held, ended, backing off, or missing."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    ground.put(job, "z", "DONE", made_at=9)
    work = job.claims["work"]
    mine = await ground.db.claim_one(work, "a", by="ann", now=NOON)
    assert isinstance(mine, Claim)
    held = await ground.db.claim_one(work, "a", by="bob", now=after(1))
    assert isinstance(held, Taken)
    assert (held.key, held.status) == ("a", "RUNNING")
    assert "another process holds it" in held.why
    ended = await ground.db.claim_one(work, "z", now=NOON)
    assert isinstance(ended, Taken)
    assert "only rows at QUEUED, RUNNING" in ended.why
    assert isinstance(await ground.db.claim_one(work, "nobody", now=NOON), Missing)
    await ground.db.fail(mine, now=after(2))
    resting = await ground.db.claim_one(work, "a", now=after(2.5))
    assert isinstance(resting, Taken)
    assert "backs off" in resting.why
    again = await ground.db.claim_one(work, "a", by="bob", now=after(4))
    assert isinstance(again, Claim)
    assert (await ground.db.move(job.moves["finish"], again)).won


async def test_a_row_that_is_out_of_attempts_is_not_claimed_by_its_key(ground: Ground) -> None:
    """The answer says how many attempts there were."""
    job = jobs(ground)
    await put(ground, job, "a", attempts=3)
    told = await ground.db.claim_one(job.claims["work"], "a", now=NOON)
    assert isinstance(told, Taken)
    assert "it has had 3 attempts" in told.why
    assert (ground.get(job, "a")["status"], ground.get(job, "a")["attempts"]) == ("QUEUED", "3")


async def test_guards_hold_in_the_claim_itself(ground: Ground) -> None:
    """Guards of the declaration and of the call."""
    job = jobs(ground, claim={"where": [["owner", "=", "ann"]]})
    await put(ground, job, "a", "b", owner="ann")
    await put(ground, job, "c", owner="bob")
    work = job.claims["work"]
    claims = await ground.db.claim(work, 5, now=NOON, where=column("made_at") > 0)
    assert [one.key for one in claims] == ["b"]
    refused = await ground.db.claim_one(work, "c", now=NOON)
    assert isinstance(refused, Taken)
    assert "not owner = 'ann'" in refused.why


async def test_a_claim_returns_columns_of_the_row(ground: Ground) -> None:
    """As a dict or a dataclass."""
    job = jobs(ground)
    await put(ground, job, "a", owner="ann")
    (mine,) = await ground.db.claim(job.claims["work"], returning=["owner", "status"], now=NOON)
    assert mine.row == {"owner": "ann", "status": "RUNNING"}


async def test_rows_of_one_line_are_claimed_one_after_the_other(ground: Ground) -> None:
    """In order for one user, at once for many users."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    for number, (key, owner) in enumerate([("a1", "ann"), ("a2", "ann"), ("b1", "bob"), ("a3", "ann")]):
        ground.put(job, key, "QUEUED", made_at=number, owner=owner)
    work = job.claims["work"]
    for key in ("a1", "a2", "b1", "a3"):
        await ground.db.offer(work, [key])
    first = await ground.db.claim(work, 10, now=NOON)
    assert [one.key for one in first] == ["a1", "b1"]
    assert await ground.db.claim(work, 10, now=NOON) == []
    blocked = await ground.db.claim_one(work, "a2", now=NOON)
    assert isinstance(blocked, Taken)
    assert "an earlier row with the same owner" in blocked.why
    await ground.db.fail(first[0], now=NOON)
    assert await ground.db.claim(work, 10, now=after(0.5)) == []
    (again,) = await ground.db.claim(work, 10, now=after(2))
    assert again.key == "a1"
    assert (await ground.db.move(job.moves["finish"], again)).won
    (second,) = await ground.db.claim(work, 10, now=after(3))
    assert second.key == "a2"
    assert (await ground.db.move_many(job.moves["finish"], [second]))[0].won
    (third,) = await ground.db.claim(work, 10, now=after(4))
    assert third.key == "a3"


async def test_a_row_that_ended_without_its_claim_makes_way_for_the_next_in_line(ground: Ground) -> None:
    """An operator moved it by hand."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    for number, key in enumerate(["a1", "a2"]):
        ground.put(job, key, "QUEUED", made_at=number, owner="ann")
        await ground.db.offer(job.claims["work"], [key])
    assert (await ground.db.move(job.moves["give_up"], "a1")).won
    await ground.db.claim(job.claims["work"], 10, now=NOON)
    assert ground.get(job, "a2")["status"] == "RUNNING" or [
        one.key for one in await ground.db.claim(job.claims["work"], 10, now=NOON)
    ] == ["a2"]


async def test_a_row_that_was_ended_by_hand_is_not_claimed(ground: Ground) -> None:
    """Without a move, the index of Redis still proposes it."""
    job = jobs(ground)
    await put(ground, job, "a", "b")
    ground.remove(job, "a")
    ground.put(job, "a", "DONE", made_at=0)
    (mine,) = await ground.db.claim(job.claims["work"], 10)
    assert mine.key == "b"


async def test_many_claims_are_finished_at_once_with_values_of_their_own(ground: Ground) -> None:
    """Each has its own fence: one lost claim does not spoil the others."""
    job = jobs(ground)
    await put(ground, job, "a", "b", "c")
    work = job.claims["work"]
    (stale,) = await ground.db.claim(work, 1, by="late", now=NOON)
    claims = [stale, *await ground.db.claim(work, 2, by="late", now=after(20))]
    (stolen,) = await ground.db.claim(work, 1, by="next", now=after(31))
    assert stolen.key == "a"
    answers = await ground.db.move_many(job.moves["finish"], {one: {"result": f"of {one.key}"} for one in claims})
    assert [answer.outcome for answer in answers] == ["lost", "moved", "moved"]
    assert [ground.get(job, key)["result"] for key in "abc"] == [None, "of b", "of c"]
    assert ground.get(job, "a")["status"] == "RUNNING"


@ALL_FORMS
async def test_who_holds_what_can_be_seen(ground: Ground, form: str) -> None:
    """Oldest first, stale ones marked."""
    job = jobs(ground, form)
    await put(ground, job, "a", "b")
    work = job.claims["work"]
    await ground.db.claim(work, 1, by="ann", now=NOON)
    await ground.db.claim(work, 1, by="bob", now=after(20))
    held = await ground.db.claims(work, now=after(35))
    assert [(one.key, one.status, one.stale, one.attempts) for one in held] == [
        ("a", "RUNNING", True, 1),
        ("b", "RUNNING", False, 1),
    ]
    assert (held[0].until - NOON).total_seconds() == 30


@ALL_FORMS
async def test_claims_that_count_no_attempts_are_listed_too(ground: Ground, form: str) -> None:
    """Also without a column that counts attempts."""
    plain = {"attempts": None, "max_attempts": None, "dead_letter": None}
    job = jobs(ground, form, claim=plain)
    await put(ground, job, "a")
    work = job.claims["work"]
    (mine,) = await ground.db.claim(work, by="ann")
    (held,) = await ground.db.claims(work)
    assert (held.key, held.attempts, held.stale) == (mine.key, None, False)


@ALL_FORMS
async def test_the_store_s_own_clock_is_used_without_now(ground: Ground, form: str) -> None:
    """A lease of a minute does not end at once."""
    job = jobs(ground, form, claim={"lease": 60})
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"])
    assert await ground.db.claim(job.claims["work"]) == []
    (kept,) = await ground.db.renew(mine)
    assert isinstance(kept, Claim)
    assert await ground.db.claim(job.claims["work"]) == []
    assert (await ground.db.move(job.moves["finish"], kept)).won


@pytest.mark.parametrize(
    "text",
    [
        "PROCESSING:JOB:oops",
        "PROCESSING:JOB:x:not-a-time",
        "an old error",
        "",
        "PROCESSING:JOB:x:{}000",  # milliseconds
        "PROCESSING:JOB:x:{}000000000",  # nanoseconds, which are no time at all on PostgreSQL
        "PROCESSING:JOB:x:0000{}",
        "PROCESSING:JOB:x:{}abc",
        "PROCESSING:JOB:x:{} ",
        "PROCESSING:JOB:x: {}",
        "PROCESSING:JOB:x:{}\n",
        "PROCESSING:JOB:x:+{}",
        "PROCESSING:JOB:x:{}e0",
        "PROCESSING:JOB:x:0x{:X}",
        "PROCESSING:JOB:x:inf",
        "PROCESSING:JOB:x:{}.",
        "PROCESSING:JOB:x:.{}",
        "PROCESSING:JOB:x:{}.1.2",
        "PROCESSING:JOB:x:{}.1234567890",
        "PROCESSING:JOB::{}",
        "PROCESSING::x:{}",
        "PROCESSING:JOB:{}",
        "PROCESSING:JOB:x:y:{}",
        "processing:JOB:x:{}",
        " PROCESSING:JOB:x:{}",
        "a:b:c:{}",
    ],
)
async def test_a_broken_marker_holds_nothing(ground: Ground, text: str) -> None:
    """Read as a marker, most of these would hold the row; malformed, none may stop the work on it."""
    job = jobs(ground, "marker")
    await put(ground, job, "a", error=text.format(int(NOON.timestamp()) - 5))
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    assert str(mine.fence).startswith("PROCESSING:JOB:")
    assert ground.get(job, "a")["error"] == mine.fence


@pytest.mark.parametrize("spelling", ["{}", "{}.1", "{}.123456789", "00{}"])
async def test_a_marker_that_another_program_wrote_holds_its_row(ground: Ground, spelling: str) -> None:
    """P3: in any well-formed notation."""
    job = jobs(ground, "marker")
    seconds = spelling.format(int(NOON.timestamp()) - 5)
    await put(ground, job, "a", error=f"PROCESSING:OTHER:x:{seconds}")
    assert await ground.db.claim(job.claims["work"], now=NOON) == []
    assert isinstance(await ground.db.claim_one(job.claims["work"], "a", now=NOON), Taken)


@pytest.mark.parametrize("fence", [2**53 - 2, 2**53 - 1, 2**53, 2**53 + 1, 9_999_999_999_999_999, 10**18])
async def test_fences_grow_beyond_what_a_float_can_count(ground: Ground, fence: int) -> None:
    """P4: no two claims share a fence, and the late holder learns that it lost."""
    job = jobs(ground)
    await put(ground, job, "a", fence=fence)
    work = job.claims["work"]
    (late,) = await ground.db.claim(work, by="late", now=NOON)
    (current,) = await ground.db.claim(work, by="next", now=after(31))
    assert [late.fence, current.fence] == [fence + 1, fence + 2]
    assert isinstance(await ground.db.move(job.moves["finish"], late), Lost)
    await ground.db.release(current, now=after(32))
    (again,) = await ground.db.claim(work, now=after(33))
    assert again.fence == fence + 4


async def test_rows_of_another_tenant_are_not_seen(ground: Ground) -> None:
    """A claim takes rows of one tenant only."""
    job = jobs(ground, tenant="shop")
    for shop in ("red", "blue"):
        ground.put(job, (shop, "a"), "QUEUED", made_at=1)
        await ground.db.for_tenant(shop).offer(job.claims["work"], ["a"])
    red = ground.db.for_tenant("red")
    (mine,) = await red.claim(job.claims["work"], 5, now=NOON)
    assert (mine.key, mine.tenant) == ("a", "red")
    assert await red.claim(job.claims["work"], 5, now=NOON) == []
    assert (await red.move(job.moves["finish"], mine)).won
    assert ground.get(job, ("blue", "a"))["status"] == "QUEUED"
    with pytest.raises(CallError, match="say whose rows"):
        await ground.db.claim(job.claims["work"])


async def test_bad_calls_about_claims_raise_before_anything_is_sent(ground: Ground) -> None:
    """Invalid arguments are errors of the call."""
    job = jobs(ground)
    work = job.claims["work"]
    with pytest.raises(CallError, match="must be a number of rows"):
        await ground.db.claim(work, 0)
    with pytest.raises(CallError, match="this takes a claim"):
        await ground.db.claim(job.moves["start"])
    with pytest.raises(CallError, match="time zone"):
        await ground.db.claim(work, now=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(CallError, match="is not a time"):
        await ground.db.claim(work, lease=0)
    other = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(work, now=NOON)
    with pytest.raises(CallError, match="another lifecycle"):
        await ground.db.move(other.moves["finish"], mine)
