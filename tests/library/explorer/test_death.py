"""A process that dies: nothing of it runs on, nothing uncommitted is left, and the next one begins anew."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from raceproof.testing.explorer import Connection, World
from tests.library.explorer.worlds import Job, end, replayed, world_with


def test_a_death_runs_no_clean_up_of_any_kind() -> None:
    """No finally, no exit of a context manager, in no task and in no generator of the process."""
    ran: list[str] = []

    @contextmanager
    def managed() -> Any:
        try:
            yield
        finally:
            ran.append("context manager")

    @asynccontextmanager
    async def managed_too() -> AsyncIterator[None]:
        try:
            yield
        finally:
            ran.append("asynchronous context manager")

    async def generated() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ran.append("generator")

    async def victim(db: Connection) -> None:
        async def child() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ran.append("task")

        task = asyncio.create_task(child())
        try:
            with managed():
                async with managed_too(), asyncio.timeout(50):
                    async for _ in generated():
                        await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
        finally:
            ran.append("finally")
        await task

    during: list[list[str]] = []
    world = world_with(victim, restarts=False)

    @world.process
    async def other(db: Connection) -> None:
        for _ in range(5):
            await db.execute("SELECT 1")
        during.append(list(ran))

    verdict = replayed(world, "victim victim:dies-after other*6")
    assert during == [[]]
    assert end(verdict)["a"] == 1


def test_a_death_rolls_back_its_open_transaction_and_lets_the_others_go_on() -> None:
    """Its connection closes, and nothing of what it has not committed is left."""

    async def victim(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
            await db.execute("UPDATE t SET n = 1 WHERE id = 'b'")

    async def other(db: Connection) -> None:
        await db.execute("UPDATE t SET n = 5 WHERE id = 'b'")

    verdict = replayed(world_with(victim, other, restarts=False), "victim*3 victim:dies-after other*2")
    assert end(verdict) == {"a": 0, "b": 5}


def test_what_a_death_rolled_back_is_not_shown_any_more() -> None:
    """Neither in the table of steps nor to an invariant, also if nobody writes anything afterwards."""

    async def victim(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")

    world = world_with(victim, restarts=False)
    world.eventually("nothing is left", lambda moment: moment.row("t", id="a")["n"] == 0)
    verdict = replayed(world, "victim*2 victim:dies-after")
    assert verdict.kind == "passed", verdict.why
    assert end(verdict)["a"] == 0


@pytest.mark.parametrize(
    ("fate", "left"), [("dies-before", 0), ("dies-after", 1), ("cancelled-before", 0), ("cancelled-after", 1)]
)
def test_a_death_or_a_cancellation_comes_before_or_after_the_operation(fate: str, left: int) -> None:
    """Two points around every operation cover them all."""

    async def victim(db: Connection) -> None:
        await db.execute("UPDATE t SET n = n + 1 WHERE id = 'a'")

    assert end(replayed(world_with(victim, restarts=False), f"victim victim:{fate}"))["a"] == left


@pytest.mark.parametrize(("fate", "left"), [("dies-before", 1), ("dies-after", 2)])
def test_the_next_incarnation_begins_anew(fate: str, left: int) -> None:
    """With nothing of the last one in its memory, and another identity."""
    born: list[int] = []

    async def victim(db: Connection) -> None:
        memory: list[int] = []
        born.append(len(memory))
        memory.append(1)
        await db.execute("UPDATE t SET n = n + 1 WHERE id = 'a'")

    verdict = replayed(world_with(victim), f"victim victim:{fate} victim*2")
    assert end(verdict)["a"] == left
    assert born == [0, 0]
    assert verdict.steps[-1].title == "victim'"


def test_a_dead_holder_is_not_taken_for_its_next_incarnation() -> None:
    """They have different names for the library, so the row stays held until its lease is over."""
    world = World("holders")
    world.table(Job)
    world.row(Job, "j", status="QUEUED")
    log = world.effect("log")

    @world.process
    async def worker(db: Connection) -> None:
        for held in await db.claim(Job.work, 1):
            await log(held.by)

    verdict = replayed(world, "worker*2 worker:dies-after worker*2")
    assert [step.title for step in verdict.steps if step.operation.startswith("log")] == ["worker"]
    assert verdict.steps[-1].title == "worker'"
