"""Every way to declare statuses: the store gets their values, answers return the caller's own members."""

from enum import Enum, StrEnum
from typing import Any, Literal

import pytest

from raceproof import Already, DeadLettered, Lifecycle, Moved, Refused, Released, claimable, column, move
from raceproof.declare import History, Spec
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground, fresh_name


class Strings(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "it's done"
    SPENT = "spent"


class Mixed(str, Enum):  # noqa: UP042
    """The form from before Python 3.11: `str()` gives `Mixed.WAITING`."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "it's done"
    SPENT = "spent"


class Choices42(str, Enum):  # noqa: UP042
    """Django 4.2's TextChoices: not a StrEnum, but a str and an Enum whose `str()` is its value."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "it's done"
    SPENT = "spent"

    def __str__(self) -> str:
        return str(self.value)


class Plain(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "it's done"
    SPENT = "spent"


Text = Literal["waiting", "running", "it's done", "spent"]

KINDS: dict[str, tuple[Any, list[Any]]] = {
    **{kind.__name__: (kind, list(kind)) for kind in (Strings, Mixed, Choices42, Plain)},
    "Literal": (Text, ["waiting", "running", "it's done", "spent"]),
}
"""Ways to declare statuses, each with its four members."""


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def status_kind(request: pytest.FixtureRequest) -> Any:
    """One way to declare statuses; override it to add others."""
    return request.param


def declare(kind: tuple[Any, list[Any]]) -> tuple[Spec[Any], list[Any]]:
    """The same lifecycle, whatever its statuses are."""
    statuses, members = kind
    waiting, running, ended, spent = members

    class Job(
        Lifecycle[statuses],  # type: ignore[valid-type]
        table=fresh_name("kinds"),
        initial=waiting,
        terminal=(ended, spent),
        revision="rev",
        history=History(fresh_name("kinds_history"), losers=True),
    ):
        start = move(waiting, to=running)
        back = move(running, to=waiting)
        finish = move(waiting, running, to=ended)
        spend = move(waiting, running, to=spent)
        work = claimable(start, lease=30, attempts="attempts", max_attempts=2, back=back, dead_letter=spend)

    return Job.spec, members


async def test_moves_answer_with_the_callers_members_and_write_their_values(ground: Ground, status_kind: Any) -> None:
    """`Moved`, `Already` and `Refused`, their texts, the row and its history."""
    spec, (waiting, running, ended, _) = declare(status_kind)
    ground.table(spec)
    ground.put(spec, "a", "waiting")
    moved = await ground.db.move(spec.moves["start"], "a", where=column("status") == waiting)
    assert isinstance(moved, Moved)
    assert (moved.before, moved.status) == (waiting, running)
    assert (type(moved.before), type(moved.status)) == (type(waiting), type(running))
    assert str(moved) == "Job.start moved 'a' from waiting to running"
    already = await ground.db.move(spec.moves["start"], "a")
    assert isinstance(already, Already)
    assert (already.status, type(already.status)) == (running, type(running))
    assert str(already).startswith("Job.start found 'a' at running already")
    assert (await ground.db.move(spec.moves["finish"], "a")).won
    refused = await ground.db.move(spec.moves["start"], "a")
    assert isinstance(refused, Refused)
    assert (refused.status, type(refused.status), refused.allowed) == (ended, type(ended), ())
    assert "it is at it's done; allowed there: nothing" in str(refused)
    assert ground.get(spec, "a")["status"] == "it's done"
    history = [
        (one.move, one.before, one.after) for one in await ground.db.history(spec, "a") if one.outcome == "moved"
    ]
    assert history == [("finish", "running", "it's done"), ("start", "waiting", "running")]


async def test_many_rows_move_with_the_callers_members(ground: Ground, status_kind: Any) -> None:
    spec, (waiting, running, ended, _) = declare(status_kind)
    ground.table(spec)
    for key, status in (("a", "waiting"), ("b", "running"), ("c", "it's done")):
        ground.put(spec, key, status)
    answers = await ground.db.move_many(spec.moves["finish"], ["a", "b", "c"])
    assert [getattr(one, "before", one.status) for one in answers] == [waiting, running, ended]
    assert {type(one.status) for one in answers} == {type(ended)}


async def test_claims_answer_with_the_callers_members_and_write_their_values(ground: Ground, status_kind: Any) -> None:
    """Claimed, released, taken by another, failed and dead-lettered."""
    spec, (waiting, running, _, spent) = declare(status_kind)
    ground.table(spec)
    work = spec.claims["work"]
    ground.put(spec, "a", "waiting")
    await ground.db.offer(work, ["a"])
    (held,) = await ground.db.claim(work, by="ann", now=NOON)
    assert (held.before, type(held.before), held.taken_over) == (waiting, type(waiting), False)
    assert ground.get(spec, "a")["status"] == "running"
    (given,) = await ground.db.release(held, now=NOON)
    assert isinstance(given, Released)
    assert (given.status, type(given.status)) == (waiting, type(waiting))
    (held,) = await ground.db.claim(work, by="ann", now=after(1))
    taken = await ground.db.claim_one(work, "a", by="bob", now=after(2))
    assert (taken.status, type(taken.status)) == (running, type(running))
    assert "at running" in str(taken)
    await ground.db.fail(held, now=after(3))
    (held,) = await ground.db.claim(work, by="ann", now=after(4))
    (aside,) = await ground.db.fail(held, now=after(5))
    assert isinstance(aside, DeadLettered)
    assert (aside.status, type(aside.status)) == (spent, type(spent))
    assert "at spent" in str(aside)
    assert ground.get(spec, "a")["status"] == "spent"
    lost = await ground.db.move(spec.moves["finish"], held)
    assert (lost.status, type(lost.status)) == (spent, type(spent))


async def test_a_row_that_was_taken_over_is_known_as_such(ground: Ground, status_kind: Any) -> None:
    spec, (_, running, ended, _) = declare(status_kind)
    ground.table(spec)
    work = spec.claims["work"]
    ground.put(spec, "a", "waiting")
    await ground.db.offer(work, ["a"])
    await ground.db.claim(work, by="late", now=NOON)
    (held,) = await ground.db.claim(work, by="next", now=after(31))
    assert (held.before, type(held.before), held.taken_over) == (running, type(running), True)
    finished = await ground.db.move(spec.moves["finish"], held)
    assert (finished.status, type(finished.status)) == (ended, type(ended))
