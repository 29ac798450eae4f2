"""Many claims that end in one call, on every store (L7; P4, P5): each gets an answer, however many share a fence."""

from typing import Any

import pytest

from raceproof import Already, Lost, Moved
from raceproof.declare import Spec
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import Event, subscribed
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put

MOVES = {"start": {"from": ["QUEUED"], "to": "RUNNING"}, "finish": {"from": ["RUNNING"], "to": "DONE"}}
FORMS_ALONE = {"attempts": None, "max_attempts": None, "not_before": None, "back": None, "dead_letter": None}
# how a second finish is answered: only a fence that stays in the row shows that the first one was its own
ENDED = {"columns": Already, "timestamp": Lost, "marker": Lost}


def plain(ground: Ground, form: str) -> Spec[str]:
    """Jobs whose finish returns nothing but the answer: stores have a fast path for them."""
    return jobs(ground, form, claim=FORMS_ALONE, revision=None, statuses=["QUEUED", "RUNNING", "DONE"], moves=MOVES)


@ALL_FORMS
async def test_claims_of_one_call_end_together_and_each_has_its_answer(ground: Ground, form: str) -> None:
    """Claims taken over meanwhile are lost; a claim named twice gets the answer of a second call."""
    job = plain(ground, form)
    await put(ground, job, *"abcde")
    work, finish = job.claims["work"], job.moves["finish"]
    a, b, c, d, e = await ground.db.claim(work, 5, by="ann", now=NOON)
    taken = await ground.db.claim(work, 2, by="bob", now=after(31))
    assert [one.key for one in taken] == ["a", "b"]
    answers = await ground.db.move_many(finish, [e, a, d, b, d, c])
    assert [(answer.key, type(answer)) for answer in answers] == [
        ("e", Moved), ("a", Lost), ("d", Moved), ("b", Lost), ("d", ENDED[form]), ("c", Moved),
    ]  # fmt: skip
    assert {answer.before for answer in answers if isinstance(answer, Moved)} == {"RUNNING"}
    assert [ground.get(job, key)["status"] for key in "abcde"] == ["RUNNING"] * 2 + ["DONE"] * 3
    assert [answer.won for answer in await ground.db.move_many(finish, taken)] == [True, True]
    again = await ground.db.move_many(finish, [c, d, e])
    assert [type(answer) for answer in again] == [ENDED[form]] * 3


@ALL_FORMS
async def test_many_claims_of_two_calls_end_together_and_each_has_its_answer(ground: Ground, form: str) -> None:
    """Enough of each for a statement of its own; answers keep the order of the claims."""
    job = plain(ground, form)
    keys = [f"k{number:03}" for number in range(240)]
    await put(ground, job, *keys)
    work, finish = job.claims["work"], job.moves["finish"]
    first = await ground.db.claim(work, 120, by="ann", now=NOON)
    second = await ground.db.claim(work, 120, by="ann", now=after(1))
    taken = await ground.db.claim(work, 3, by="bob", now=after(30.5))
    assert [one.key for one in taken] == keys[:3]
    claims = [one for pair in zip(second, first, strict=True) for one in pair]
    events: list[Event] = []
    with subscribed(events.append):
        answers = await ground.db.move_many(finish, claims)
    assert [answer.key for answer in answers] == [one.key for one in claims]
    lost = [answer.key for answer in answers if isinstance(answer, Lost)]
    assert lost == keys[:3]
    assert sum(isinstance(answer, Moved) for answer in answers) == 237
    assert [(event.key, event.outcome) for event in events] == [(answer.key, answer.outcome) for answer in answers]
    rows = [ground.get(job, key)["status"] for key in (*keys[:4], *keys[4::40], keys[-1])]
    assert rows == ["RUNNING"] * 3 + ["DONE"] * 8


@ALL_FORMS
@pytest.mark.parametrize("shape", ["plain", "told"])
async def test_a_stale_claim_is_lost_whatever_claims_it_comes_with(ground: Ground, form: str, shape: str) -> None:
    """P4: each is decided by its own fence, also if the first statement did not move it."""
    job = plain(ground, form) if shape == "plain" else jobs(ground, form)
    await put(ground, job, "a", "b")
    work = job.claims["work"]
    late, _ = await ground.db.claim(work, 2, by="late", now=NOON)
    _, b = await ground.db.claim(work, 2, by="next", now=after(31))
    answers = await ground.db.move_many(job.moves["finish"], [b, late])
    assert [answer.outcome for answer in answers] == ["moved", "lost"]
    assert [ground.get(job, key)["status"] for key in "ab"] == ["RUNNING", "DONE"]


async def test_many_stale_claims_are_lost_whatever_claims_they_come_with(ground: Ground) -> None:
    """P4: enough of each fence for a statement of its own."""
    job = plain(ground, "columns")
    await put(ground, job, *[f"k{number:03}" for number in range(200)])
    work = job.claims["work"]
    late = await ground.db.claim(work, 100, by="late", now=NOON)
    current = await ground.db.claim(work, 200, by="next", now=after(31))
    assert len(current) == 200
    answers = await ground.db.move_many(job.moves["finish"], [*current[100:], *late])
    assert [answer.outcome for answer in answers] == ["moved"] * 100 + ["lost"] * 100


@ALL_FORMS
async def test_the_same_end_again_writes_nothing_and_shows_where_the_row_is(ground: Ground, form: str) -> None:
    """P12: after an unknown outcome the holder asks again, also where the end clears the fence."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    finish = job.moves["finish"]
    assert (await ground.db.move(finish, mine, now=after(1))).outcome == "moved"
    row = ground.get(job, "a")
    again = await ground.db.move(finish, mine, now=after(2))
    assert (type(again), again.status) == (ENDED[form], "DONE")
    assert [type(one) for one in await ground.db.move_many(finish, [mine, mine])] == [ENDED[form]] * 2
    assert ground.get(job, "a") == row


@pytest.mark.parametrize("how", ["key first", "claim first", "mapping", "named"])
async def test_keys_and_claims_cannot_share_a_move(ground: Ground, how: str) -> None:
    """P4: a statement that drops the fence for one row would drop it for all."""
    job = jobs(ground)
    await put(ground, job, "a")
    work, finish = job.claims["work"], job.moves["finish"]
    (late,) = await ground.db.claim(work, now=NOON)
    (current,) = await ground.db.claim(work, now=after(31))
    ground.put(job, "b", "RUNNING")
    keys: Any = {
        "key first": ["b", late],
        "claim first": [late, "b"],
        "mapping": {"b": {"result": "b"}, late: {"result": "late"}},
        "named": [late, "b"],
    }[how]
    options = {"by": "ann"} if how == "named" else {}
    with pytest.raises(CallError, match=r"claims of one kind only|cannot share"):
        await ground.db.move_many(finish, keys, **options)
    assert ground.get(job, "a")["status"] == "RUNNING"
    assert (await ground.db.move(finish, current, now=after(32))).won


async def test_a_row_that_is_given_back_is_where_its_claim_found_it(ground: Ground) -> None:
    """A claim without a move leaves its row's status, and without a `not_before` column nothing backs off."""
    job = jobs(
        ground,
        history=True,
        claim={"move": None, "at": ["QUEUED", "CHECKED"], "back": None, "not_before": None, "dead_letter": None},
    )
    await put(ground, job, "a", status="CHECKED")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    (given,) = await ground.db.fail(mine, now=after(1))
    assert (given.outcome, given.status, given.delay) == ("released", "CHECKED", 0.0)
    assert ground.get(job, "a")["status"] == "CHECKED"
    (last, _) = await ground.db.history(job, "a")
    assert (last.before, last.after, last.outcome) == ("CHECKED", "CHECKED", "released")
    assert len(await ground.db.claim(job.claims["work"], now=after(1))) == 1
