"""A process that is cancelled may tidy up, with all that asyncio has for that."""

import asyncio

import pytest

from raceproof.testing.explorer import Connection
from tests.library.explorer.worlds import end, replayed, world_with


def test_a_cancelled_process_runs_its_finally_blocks_and_can_use_the_store_there() -> None:
    """It is asked to stop, and has the time to tidy up."""

    async def main(db: Connection) -> None:
        try:
            async with db.transaction():
                await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
                await db.execute("SELECT 1")
        finally:
            await db.execute("UPDATE t SET n = 7 WHERE id = 'b'")

    verdict = replayed(world_with(main, restarts=False), "main*3 main:cancelled-before")
    assert end(verdict) == {"a": 0, "b": 7}


def test_a_cancellation_right_after_begin_leaves_no_transaction_behind() -> None:
    """What the process writes on its way out is committed by itself."""

    async def main(db: Connection) -> None:
        try:
            async with db.transaction():
                await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
        finally:
            await db.execute("UPDATE t SET n = 7 WHERE id = 'b'")

    verdict = replayed(world_with(main, restarts=False), "main main:cancelled-after")
    assert end(verdict) == {"a": 0, "b": 7}


def test_a_shielded_task_goes_on_when_its_process_is_cancelled() -> None:
    """As long as the process waits for it."""

    async def main(db: Connection) -> None:
        inner = asyncio.ensure_future(db.execute("UPDATE t SET n = 1 WHERE id = 'a'"))
        try:
            await asyncio.shield(inner)
        except asyncio.CancelledError:
            await inner
            raise

    assert end(replayed(world_with(main, restarts=False), "main main:cancelled-before"))["a"] == 1


def test_tasks_that_a_process_leaves_behind_are_cancelled_and_may_tidy_up() -> None:
    """As asyncio.run does: also if the process ends with an exception."""

    async def main(db: Connection) -> None:
        async def child() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await db.execute("UPDATE t SET n = 7 WHERE id = 'b'")

        task = asyncio.create_task(child())
        await asyncio.sleep(0)
        await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
        assert not task.done()

    for schedule in ("main*2", "main main:unanswered", "main main:cancelled-after"):
        assert end(replayed(world_with(main, restarts=False), schedule)) == {"a": 1, "b": 7}, schedule
    restarted = replayed(world_with(main), "main main:unanswered")
    assert end(restarted) == {"a": 1, "b": 7}
    first = [step.title for step in restarted.steps if "= 7" in step.operation]
    assert first[0] == "main", "the first incarnation did not tidy up"


def test_a_timeout_cancels_in_virtual_time() -> None:
    """And takes no real time."""
    seen: list[float] = []

    async def main(db: Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(30):
                await asyncio.sleep(3600)
        except TimeoutError:
            seen.append(loop.time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 12.5)
        seen.append(loop.time())

    replayed(world_with(main), "main")
    assert seen == [30.0, 42.5]
