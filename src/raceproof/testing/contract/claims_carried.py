"""Pickled and copied claims, on every store (L7): Celery and process pools hand claims over."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from raceproof import Claim, Lifecycle, column, sql
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put

Carried = Callable[[Claim[Any, Any]], Claim[Any, Any]]
WAYS: dict[str, Carried] = {
    "pickle": lambda claim: pickle.loads(pickle.dumps(claim)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@ALL_FORMS
@pytest.mark.parametrize("way", WAYS)
async def test_a_claim_that_was_carried_elsewhere_is_still_a_claim(ground: Ground, form: str, way: str) -> None:
    """It can be renewed, finished and released like the original."""
    job = jobs(ground, form)
    await put(ground, job, "a", "b", "c")
    work, finish = job.claims["work"], job.moves["finish"]
    a, b, c = (WAYS[way](one) for one in await ground.db.claim(work, 3, by="ann", now=NOON))
    assert a.declared is work
    a, b = await ground.db.renew([a, b], now=after(1))
    assert (await ground.db.move(finish, WAYS[way](a), set={"result": "fine"}, now=after(2))).won
    assert [one.won for one in await ground.db.move_many(finish, [b])] == [True]
    assert [one.outcome for one in await ground.db.release(c, now=after(2))] == ["released"]
    assert [ground.get(job, key)["status"] for key in "abc"] == ["DONE", "DONE", "QUEUED"]


async def test_a_claim_belongs_to_every_declaration_of_the_same_meaning(ground: Ground) -> None:
    """A module imported twice declares a lifecycle twice; a claim of another lifecycle is refused by name."""
    job = jobs(ground)
    await put(ground, job, "a", "b")
    twin = Lifecycle.from_dict(job.to_dict())
    assert twin is not job
    a, b = await ground.db.claim(job.claims["work"], 2, now=NOON)
    assert (await ground.db.move(twin.moves["finish"], a, now=after(1))).won
    assert [one.won for one in await ground.db.move_many(twin.moves["finish"], [b])] == [True]
    other = Lifecycle.from_dict({**job.to_dict(), "name": "Other"})
    with pytest.raises(CallError, match=r"this claim is of Job\.work, which belongs to another lifecycle"):
        await ground.db.move(other.moves["finish"], a, now=after(1))


async def test_a_claim_of_a_lifecycle_that_is_not_declared_here_says_what_to_import(ground: Ground) -> None:
    """A claim needs its lifecycle; the error names the missing one."""
    job = jobs(ground, name="Vanishing")
    await put(ground, job, "a")
    (claim,) = await ground.db.claim(job.claims["work"], now=NOON)
    carried = pickle.dumps(claim).replace(job.table.encode(), b"x" * len(job.table))
    with pytest.raises(CallError, match=r"lifecycle Vanishing on table x+ is not declared in this process"):
        pickle.loads(carried)


async def test_an_answer_can_be_pickled(ground: Ground) -> None:
    """A process pool returns answers, and they still compare equal."""
    job = jobs(ground)
    await put(ground, job, "a")
    answer = await ground.db.move(job.moves["start"], "a", now=NOON)
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert copy.deepcopy(answer) == answer


async def test_a_claim_is_true_and_other_answers_are_neither(ground: Ground) -> None:
    """`claim or key` picks the claim; `if answer:` would hide a loss."""
    job = jobs(ground)
    await put(ground, job, "a")
    (claim,) = await ground.db.claim(job.claims["work"], now=NOON)
    assert (claim or "a") is claim
    assert bool(claim) is True
    answer = await ground.db.move(job.moves["finish"], claim, now=after(1))
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(answer)


@pytest.mark.parametrize("expression", [sql("t.attempts + 1"), column("attempts"), column("attempts") > 1], ids=str)
async def test_an_expression_in_set_never_reaches_the_driver(ground: Ground, expression: Any) -> None:
    """The error is raised before anything is sent, and names the column."""
    job = jobs(ground)
    ground.put(job, "a", "RUNNING")
    with pytest.raises(CallError, match="'result' takes a value, not the expression"):
        await ground.db.move(job.moves["finish"], "a", set={"result": expression})
    with pytest.raises(CallError, match="'result' takes a value, not the expression"):
        await ground.db.move_many(job.moves["finish"], {"a": {"result": expression}})
    assert ground.get(job, "a")["status"] == "RUNNING"
