"""What fails or stays without an answer: a statement, a transaction, an effect, a step of the library."""

from typing import Any

import pytest

from raceproof import Delivery
from raceproof.kernel.errors import CallError
from raceproof.testing.explorer import (
    Connection,
    EffectRefused,
    EffectUnknown,
    Explorer,
    Moment,
    StoreUnreachable,
    World,
)
from tests.library.explorer.worlds import Body, Job, end, explored, post, replayed, world_with


def outcomes(world: World, schedule: str) -> list[str]:
    """What the process told about how it went."""
    seen: list[str] = []
    world.process(name="main")(telling(seen))
    replayed(world, schedule)
    return seen


def telling(seen: list[str]) -> Body:
    async def main(db: Connection) -> None:
        try:
            await db.execute("UPDATE t SET n = n + 1 WHERE id = 'a'")
        except StoreUnreachable as error:
            seen.append(str(error))
        seen.append(str((await db.execute("SELECT n FROM t WHERE id = 'a'"))[0][0]))

    return main


def test_a_statement_fails_without_being_done_or_is_done_without_an_answer() -> None:
    """The process sees the same kind of error, and the row tells the difference."""
    assert outcomes(world_with(), "main main:fails main") == ["the store was not reached", "0"]
    assert outcomes(world_with(), "main main:unanswered main") == ["the answer was lost", "1"]


@pytest.mark.parametrize(
    ("schedule", "left"),
    [
        ("main main:fails", 0),  # BEGIN
        ("main main:unanswered", 0),
        ("main*2 main:fails", 0),  # UPDATE
        ("main*3 main:fails", 0),  # COMMIT
        ("main*3 main:unanswered", 1),
        ("main*3 main:dies-before", 0),
        ("main*3 main:dies-after", 1),
        ("main*3 main:cancelled-before", 0),
        ("main*3 main:cancelled-after", 1),
        ("main main:cancelled-after", 0),
    ],
)
def test_a_transaction_is_committed_or_not_whichever_answer_is_lost(schedule: str, left: int) -> None:
    """Only COMMIT decides, and after any fault the store is free for others."""

    async def main(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = n + 1 WHERE id = 'a'")

    async def other(db: Connection) -> None:
        await db.execute("UPDATE t SET n = 5 WHERE id = 'b'")

    verdict = replayed(world_with(main, other, restarts=False), f"{schedule} other*2")
    assert end(verdict) == {"a": left, "b": 5}


def test_the_answer_of_a_statement_within_a_transaction_cannot_be_lost_alone() -> None:
    """The connection is gone then, which is the same as failing."""

    async def main(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = n + 1 WHERE id = 'a'")

    with pytest.raises(CallError):
        replayed(world_with(main), "main*2 main:unanswered")


def test_an_exception_rolls_back_and_a_later_write_is_not_part_of_it() -> None:
    """As with any driver: what the block has written is gone, what comes after it stays."""

    async def main(db: Connection) -> None:
        try:
            async with db.transaction():
                await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
                raise ValueError
        except ValueError:
            await db.execute("UPDATE t SET n = 2 WHERE id = 'b'")

    assert end(replayed(world_with(main), "main")) == {"a": 0, "b": 2}


def test_a_transaction_within_a_transaction_is_no_half_of_one() -> None:
    """Refused, or committed with the outer one; never committed early, and never left open."""

    async def main(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
            async with db.transaction():
                await db.execute("UPDATE t SET n = 1 WHERE id = 'b'")
            raise StoreUnreachable("as if")

    async def other(db: Connection) -> None:
        await db.execute("UPDATE t SET n = n + 5 WHERE id = 'b'")

    try:
        verdict = replayed(world_with(other, main, restarts=False), "main")
    except CallError:
        return
    if "CallError" not in verdict.why:
        assert end(verdict)["a"] == 0


def test_an_effect_is_refused_or_unknown_and_happens_accordingly() -> None:
    """Refused: nothing happened. Unknown: it happened, and only the answer did not come."""
    for fate, error, times in (("fails", EffectRefused, 0), ("unanswered", EffectUnknown, 1)):
        world = world_with()
        send = world.effect("send")
        seen: list[str] = []

        @world.process
        async def main(db: Connection, send: Any = send, seen: list[str] = seen) -> None:
            try:
                await send("x")
            except (EffectRefused, EffectUnknown) as raised:
                seen.append(type(raised).__name__)

        world.eventually("times", lambda moment, s=send, t=times: len(moment.calls(s)) == t)  # type: ignore[misc]
        assert replayed(world, f"main main:{fate}").kind == "passed"
        assert seen == [error.__name__]


def test_an_effect_answers_from_its_calls_so_far() -> None:
    """As the outside would, which knows that it was asked before."""
    world = world_with()
    send = world.effect("send", answer=lambda calls: len(calls))
    seen: list[Any] = []

    @world.process
    async def main(db: Connection) -> None:
        seen.extend([await send("x"), await send("y")])

    replayed(world, "main")
    assert seen == [1, 2]


@pytest.mark.parametrize(("fate", "status"), [("fails", "QUEUED"), ("unanswered", "RUNNING")])
def test_a_move_with_its_history_is_one_step(fate: str, status: str) -> None:
    """From BEGIN to COMMIT of the library: all of it is there, or nothing; the caller is told so, or asks and learns it."""
    world = World("moves")
    world.table(Job)
    world.row(Job, "j", status="QUEUED")

    @world.process(restarts=False)
    async def mover(db: Connection) -> None:
        await db.move(Job.start, "j")

    verdict = replayed(world, f"mover mover:{fate}")
    history = next(table for table in verdict.steps[1].tables if table != "jobs")
    after = verdict.steps[1].tables
    assert after["jobs"][0]["status"] == status
    assert len(after[history]) == (status == "RUNNING")
    told = [text for step in verdict.steps for text in step.told]
    assert bool(told) == (fate == "unanswered"), told


def test_no_other_process_comes_between_the_statements_of_a_step_of_the_library() -> None:
    """However the schedules go, a row and its history agree after every step."""
    world = World("agree")
    world.table(Job)
    world.row(Job, "j", status="QUEUED")

    async def mover(db: Connection) -> None:
        await db.move(Job.start, "j")

    world.process(times=2, name="mover")(mover)
    tables = Explorer(world).replay("mover-1").steps[0].tables
    history = next(table for table in tables if table != "jobs")

    def agree(moment: Moment) -> bool:
        return len(moment.rows(history)) == int(moment.rows("jobs")[0]["status"] == "RUNNING")

    world.always("agree", agree)
    assert explored(world, deviations=3, crashes=1, lost=1, errors=1, cancels=1).passed


def test_a_delivery_maps_the_faults_of_its_effect() -> None:
    """What is refused may be tried again, what is unknown may not; so nothing is sent twice."""
    letters = Delivery("letter", "letters", state="state", policy="hold")
    world = World("letters")
    world.table(letters)
    world.row(letters, "x", state="ready")
    send = world.effect("send")

    @world.process
    async def postman(db: Connection) -> None:
        await post(db, letters, send)

    world.never_twice(send)
    world.sometimes("sent", lambda moment: bool(moment.calls(send)))
    verdict = explored(world, crashes=1, lost=1, errors=1, cancels=1)
    assert verdict.passed, verdict.why
