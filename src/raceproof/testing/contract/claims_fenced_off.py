"""A move that leaves the claimed statuses ends the claim, whoever holds it, on every store (L7; P4, P5)."""

from typing import Any

import pytest

from raceproof import Lost, Moved, column
from raceproof.declare.claim_forms import form_columns
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put

HELD_BY = {"columns": "worker-1"}
"""Who is reported as fenced off; the other forms store no name, and report what they store."""

MOVES: dict[str, Any] = {
    "start": {"from": ["QUEUED"], "to": "RUNNING"},
    "requeue": {"from": ["RUNNING"], "to": "QUEUED"},
    "finish": {"from": ["QUEUED", "RUNNING"], "to": "DONE", "sets": ["result"]},
    "cancel": {"from": ["QUEUED", "RUNNING"], "to": "CANCELLED"},
    "give_up": {"from": ["QUEUED", "RUNNING"], "to": "DEAD"},
}
STATUSES = ["QUEUED", "RUNNING", "DONE", "CANCELLED", "DEAD"]


def cancellable(ground: Ground, form: str, **changes: Any) -> Any:
    return jobs(ground, form, statuses=STATUSES, moves=MOVES, **changes)


@ALL_FORMS
@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
async def test_a_move_by_key_ends_the_claim_and_names_who_was_fenced_off(
    ground: Ground, form: str, history: bool
) -> None:
    """An operator cancels a running job: the row shows no holder, and the holder cannot write any more."""
    job = cancellable(ground, form, history=history)
    await put(ground, job, "a")
    (claim,) = await ground.db.claim(job.claims["work"], by="worker-1", now=NOON)
    answer = await ground.db.move(job.moves["cancel"], "a", by="operator", now=after(1), returning=["status"])
    assert isinstance(answer, Moved)
    assert answer.fenced_off is not None
    assert answer.fenced_off == HELD_BY.get(form, answer.fenced_off)
    assert f"fenced off {answer.fenced_off}" in str(answer)
    assert answer.row == {"status": "CANCELLED"}
    row = ground.get(job, "a")
    assert [row[name] for name in job.claims["work"].form.cleared] == [None] * len(job.claims["work"].form.cleared)
    assert isinstance(await ground.db.move(job.moves["finish"], claim, now=after(2)), Lost)
    assert [one.outcome for one in await ground.db.renew(claim, now=after(2))] == ["lost"]
    assert [one.outcome for one in await ground.db.release(claim, now=after(2))] == ["lost"]
    assert ground.get(job, "a") == row


@ALL_FORMS
async def test_an_old_holder_cannot_finish_a_row_that_was_sent_back(ground: Ground, form: str) -> None:
    """P4: `finish` leads from QUEUED too, so only the fence stops the late holder; the row can be claimed at once."""
    job = cancellable(ground, form)
    await put(ground, job, "a")
    (late,) = await ground.db.claim(job.claims["work"], by="late", now=NOON)
    assert (await ground.db.move(job.moves["requeue"], "a", now=after(1))).won
    answer = await ground.db.move(job.moves["finish"], late, set={"result": "late"}, now=after(2))
    assert isinstance(answer, Lost)
    assert answer.status == "QUEUED"
    (claim,) = await ground.db.claim(job.claims["work"], by="next", now=after(2))
    assert (await ground.db.move(job.moves["finish"], claim, set={"result": "next"}, now=after(3))).won
    assert ground.get(job, "a")["result"] == "next"


@ALL_FORMS
async def test_a_row_that_was_not_held_fences_nobody_off(ground: Ground, form: str) -> None:
    job = cancellable(ground, form)
    await put(ground, job, "a")
    answer = await ground.db.move(job.moves["cancel"], "a", now=NOON)
    assert (answer.outcome, answer.fenced_off) == ("moved", None)


@ALL_FORMS
@pytest.mark.parametrize("how", ["keys", "matching"])
async def test_many_rows_are_fenced_off_each_for_itself(ground: Ground, form: str, how: str) -> None:
    """One call cancels held and free rows."""
    job = cancellable(ground, form)
    await put(ground, job, "a", "b")
    await ground.db.claim(job.claims["work"], 1, by="worker-1", now=NOON)
    if how == "keys":
        answers = await ground.db.move_many(job.moves["cancel"], ["a", "b"], now=after(1))
    else:
        guard = column("made_at") < 9
        answers = await ground.db.move_many(job.moves["cancel"], where=guard, now=after(1))
    told = {answer.key: answer.fenced_off for answer in answers}
    assert told == {"a": HELD_BY.get(form, told["a"]), "b": None}
    assert told["a"] is not None
    assert [ground.get(job, "a")[name] for name in job.claims["work"].form.cleared].count(None) >= 1


async def test_an_old_error_beside_a_marker_stays(ground: Ground) -> None:
    """The column belongs to the user: only a marker is removed from it."""
    job = cancellable(ground, "marker")
    await put(ground, job, "a", error="timeout after 30 s")
    answer = await ground.db.move(job.moves["cancel"], "a", now=NOON)
    assert (answer.outcome, answer.fenced_off) == ("moved", None)
    assert ground.get(job, "a")["error"] == "timeout after 30 s"


@ALL_FORMS
async def test_a_move_among_the_claimed_statuses_keeps_the_claim(ground: Ground, form: str) -> None:
    """A claim without a move holds its row at several statuses."""
    job = jobs(
        ground,
        form,
        statuses=["QUEUED", "CHECKED", "DONE"],
        moves={
            "check": {"from": ["QUEUED"], "to": "CHECKED", "sets": ["result"]},
            "finish": {"from": ["QUEUED", "CHECKED"], "to": "DONE"},
        },
        claim={"move": None, "at": ["QUEUED", "CHECKED"], "back": None, "dead_letter": None, "max_attempts": None},
    )
    await put(ground, job, "a")
    (claim,) = await ground.db.claim(job.claims["work"], by="worker-1", now=NOON)
    held = {name: ground.get(job, "a")[name] for name in form_columns(job.claims["work"].form)}
    answer = await ground.db.move(job.moves["check"], "a", now=after(1))
    assert (answer.outcome, answer.fenced_off) == ("moved", None)
    assert {name: ground.get(job, "a")[name] for name in held} == held
    assert (await ground.db.move(job.moves["finish"], claim, now=after(2))).won


@ALL_FORMS
async def test_a_holder_that_ends_its_own_claim_fences_nobody_off(ground: Ground, form: str) -> None:
    job = cancellable(ground, form)
    await put(ground, job, "a", "b")
    a, b = await ground.db.claim(job.claims["work"], 2, by="worker-1", now=NOON)
    assert (await ground.db.move(job.moves["finish"], a, now=after(1))).fenced_off is None
    assert [one.fenced_off for one in await ground.db.move_many(job.moves["finish"], [b])] == [None]
