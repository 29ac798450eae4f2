"""What a verdict says: passed only if all was reached that it is about."""

import pytest

from raceproof.testing.explorer import Connection, Explorer, Limits, StoreUnreachable, World
from tests.library.explorer.worlds import TABLE, explored, world_with


def test_a_verdict_is_inconclusive_if_something_was_never_reached() -> None:
    """A certificate about nothing is none."""

    async def main(db: Connection) -> None:
        await db.execute("UPDATE t SET n = 1")

    world = world_with(main)
    world.sometimes("two", lambda moment: moment.row("t", id="a")["n"] == 2)
    world.sometimes("one", lambda moment: moment.row("t", id="a")["n"] == 1)
    verdict = explored(world)
    assert (verdict.kind, verdict.why) == ("inconclusive", "never reached: two")
    assert verdict.covered.reached == {"one"}


def test_a_verdict_is_inconclusive_if_the_time_was_over() -> None:
    """Unless random schedules have found a failure by then."""

    async def main(db: Connection) -> None:
        for _ in range(12):
            await db.execute("UPDATE t SET n = n + 1")

    world = World("long")
    world.sql(TABLE)
    world.process(name="main", times=3)(main)
    verdict = Explorer(world, Limits(deviations=6, seconds=0.5)).explore()
    assert verdict.kind == "inconclusive"
    assert "time was over" in verdict.why
    assert verdict.covered.exhausted < 6
    assert verdict.covered.random > 0


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("crashes", "no crash was ever reached"),
        ("lost", "no lost acknowledgement was ever reached"),
        ("errors", "no error was ever reached"),
        ("cancels", "no cancellation was ever reached"),
    ],
)
def test_a_verdict_is_inconclusive_if_a_fault_never_happened(limit: str, said: str) -> None:
    """A scenario without operations shows nothing about crashes."""

    async def main(db: Connection) -> None:
        return

    verdict = explored(world_with(main), **{limit: 1})
    assert (verdict.kind, verdict.why) == ("inconclusive", said)


def test_a_process_that_raises_without_a_fault_breaks_the_run_and_with_one_starts_again() -> None:
    """A fault is an excuse; a failed assertion never has one."""

    async def raises(db: Connection) -> None:
        raise ValueError("for nothing")

    async def gives_up(db: Connection) -> None:
        await db.execute("UPDATE t SET n = 1")

    async def asserts(db: Connection) -> None:
        try:
            await db.execute("UPDATE t SET n = 1")
        except StoreUnreachable:
            raise AssertionError("seen") from None

    assert explored(world_with(raises)).why == "raises ended with ValueError: for nothing"
    assert explored(world_with(gives_up), errors=1, lost=1, crashes=1, cancels=1).passed
    assert explored(world_with(asserts), errors=1).why == "asserts ended with AssertionError: seen"
