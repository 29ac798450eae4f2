"""What each fault does to a process, what time does to a lease, and what a verdict says: each as it would really be."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from typing import Any

import pytest

from raceproof import Delivery, Lifecycle, NotSent, claim, move
from raceproof.errors import CallError
from raceproof.testing.explorer import (
    Connection,
    EffectRefused,
    EffectUnknown,
    Explorer,
    Limits,
    Moment,
    StoreUnreachable,
    Verdict,
    World,
)

TABLE = "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER); INSERT INTO t VALUES ('a', 0), ('b', 0)"
Body = Callable[[Connection], Any]


def world_with(*bodies: Body, restarts: bool = True) -> World:
    world = World("semantics")
    world.sql(TABLE)
    for body in bodies:
        world.process(restarts=restarts)(body)
    return world


def replayed(world: World, schedule: str) -> Verdict:
    return Explorer(world).replay(schedule)


def end(verdict: Verdict) -> dict[str, int]:
    """The rows when the run was over."""
    return {row["id"]: row["n"] for row in verdict.steps[-1].tables["t"]}


def explored(world: World, deviations: int = 2, **limits: Any) -> Verdict:
    chosen = {"crashes": 0, "lost": 0, "errors": 0, "cancels": 0, "seconds": 20, **limits}
    return Explorer(world, Limits(deviations=deviations, **chosen)).explore()


# death


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


# errors and lost acknowledgements


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


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs", key="job_id", history="job_moves"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    requeue = move(Status.RUNNING, to=Status.QUEUED)
    finish = move(Status.RUNNING, to=Status.DONE)
    work = claim(start, lease=30, back=requeue)


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


# cancellation


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


# time


@pytest.mark.parametrize(
    ("expression", "began", "later"),
    [
        ("strftime('%Y-%m-%d %H:%M:%f', 'now')", "2026-01-01 00:00:00.000", "2026-01-01 01:30:00.500"),
        ("strftime('%s')", "1767225600", "1767231000"),
        ("datetime('now')", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
        ("datetime()", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
        pytest.param(
            "datetime('NOW')",
            "2026-01-01 00:00:00",
            "2026-01-01 01:30:00",
        ),
        ("date('now')", "2026-01-01", "2026-01-01"),
        ("time('now')", "00:00:00", "01:30:00"),
        ("unixepoch()", 1767225600, 1767231000),
        ("unixepoch('now', '+1 minute')", 1767225660, 1767231060),
        ("round((julianday('now') - 2461041.5) * 86400, 1)", 0.0, 5400.5),
        ("CURRENT_TIMESTAMP", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
        ("current_date || ' ' || CURRENT_TIME", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
    ],
)
def test_the_clock_of_the_store_is_that_of_the_run(expression: str, began: object, later: object) -> None:
    """Every function of time that SQLite has."""
    seen: list[object] = []

    async def main(db: Connection) -> None:
        seen.append((await db.execute(f"SELECT {expression}"))[0][0])
        await asyncio.sleep(5400.5)
        seen.append((await db.execute(f"SELECT {expression}"))[0][0])

    world = world_with(main)
    world.horizon = 10_000
    replayed(world, "main")
    assert seen == [began, later]


def test_a_default_of_a_column_is_the_time_of_the_run_too() -> None:
    """Not that of the machine."""
    world = World("defaults")
    world.sql("CREATE TABLE t (id TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP, day TEXT DEFAULT (date('now')))")

    @world.process
    async def main(db: Connection) -> None:
        await asyncio.sleep(60)
        await db.execute("INSERT INTO t (id) VALUES ('x')")

    row = replayed(world, "main").steps[-1].tables["t"][0]
    assert (row["at"], row["day"]) == ("2026-01-01 00:01:00", "2026-01-01")


def test_an_index_on_a_date_can_be_declared() -> None:
    """Functions of time without 'now' are deterministic, and people index by them."""
    world = World("indexed")
    world.sql("CREATE TABLE t (id TEXT, at TEXT); CREATE INDEX by_day ON t (date(at))")

    @world.process
    async def main(db: Connection) -> None:
        await db.execute("INSERT INTO t VALUES ('x', '2026-01-01 10:00:00')")

    assert replayed(world, "main").passed


LEASES = {
    "until <= now": ("datetime('now', '+30 seconds')", "until <= datetime('now')"),
    "until < now": ("datetime('now', '+30 seconds')", "until < datetime('now')"),
    "milliseconds": (
        "strftime('%Y-%m-%d %H:%M:%f', 'now', '+30 seconds')",
        "until < strftime('%Y-%m-%d %H:%M:%f', 'now')",
    ),
    "since a moment": ("datetime('now')", "until <= datetime('now', '-30 seconds')"),
    "long since": ("CURRENT_TIMESTAMP", "until < datetime('now', '-30 seconds')"),
    "julianday": ("julianday('now', '+30 seconds')", "until < julianday('now')"),
    "unixepoch": ("unixepoch('now', '+30 seconds')", "until < unixepoch('now')"),
    "unixepoch + 30": ("unixepoch() + 30", "until < unixepoch()"),
    "unixepoch - then": ("unixepoch()", "unixepoch() - until > 30"),
    "julianday + n": ("julianday('now') + 30 / 86400.0", "until < julianday('now')"),
}


def leased(taken: str, over: str) -> World:
    """Two workers, one row and a lease of 30 seconds, without a fence: a paused worker works on when its lease is over."""
    world = World("leases")
    world.sql("CREATE TABLE jobs (id TEXT PRIMARY KEY, until); INSERT INTO jobs VALUES ('j', NULL)")
    send = world.effect("send")

    async def worker(db: Connection) -> None:
        for _ in range(2):
            if await db.execute(
                f"UPDATE jobs SET until = {taken} WHERE until IS NULL OR {over} RETURNING id"
            ):
                await send("j")
                return

    world.process(name="worker", times=2)(worker)
    world.never_twice(send)
    return world


NUMBERS = ("unixepoch + 30", "unixepoch - then", "julianday + n")
"""Leases that are reckoned with + and -, which the explorer cannot see."""


@pytest.mark.parametrize("lease", LEASES)
def test_a_lease_runs_out_on_a_worker_that_is_paused(lease: str) -> None:
    """However people write their leases: time passes to where they are over, not just to where they are not yet."""
    world = leased(*LEASES[lease])
    world.spans = [30.0] if lease in NUMBERS else []
    verdict = explored(world)
    assert verdict.kind == "failed"
    assert "wait" in verdict.schedule


def test_without_an_expiry_time_does_not_pass_while_somebody_can_go_on() -> None:
    """The control: a row that is taken forever is sent once."""
    assert explored(leased("'for ever'", "until < ''")).passed


def test_time_passes_only_to_the_next_timer_or_expiry() -> None:
    """Sleeps end in their order, each at its own time, and nothing else moves the clock."""
    woke: list[tuple[str, float]] = []

    def sleeper(name: str, seconds: float) -> Body:
        async def body(db: Connection) -> None:
            await asyncio.sleep(seconds)
            woke.append((name, asyncio.get_running_loop().time()))

        return body

    world = World("sleeps")
    for name, seconds in (("long", 60.0), ("short", 0.25), ("middle", 5.0)):
        world.process(name=name)(sleeper(name, seconds))
    replayed(world, "long")
    assert woke == [("short", 0.25), ("middle", 5.0), ("long", 60.0)]


def test_an_invariant_is_looked_at_when_only_time_has_passed() -> None:
    """It may be about the clock."""

    async def main(db: Connection) -> None:
        await asyncio.sleep(60)

    world = world_with(main)
    world.always("not late", lambda moment: moment.clock < 60)
    assert explored(world).kind == "failed"


# transactions and the others


def test_while_a_transaction_is_open_the_others_stay_away_from_the_store() -> None:
    """Nobody sees half of it, but effects outside go on."""
    world = World("half")
    world.sql(TABLE)
    log = world.effect("log")
    half = world.effect("half")

    @world.process
    async def both(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
            await db.execute("UPDATE t SET n = 1 WHERE id = 'b'")

    @world.process
    async def other(db: Connection) -> None:
        await log("x")
        [(total,)] = await db.execute("SELECT sum(n) FROM t")
        if total == 1:
            await half()

    world.always("never half", lambda moment: not moment.calls(half))
    assert explored(world, deviations=3, crashes=1, errors=1).passed
    verdict = replayed(world, "both*3 other*2 both")
    assert [step.process for step in verdict.steps][:6] == ["both"] * 3 + ["other"] * 2 + ["both"]
    with pytest.raises(CallError, match="version of the scenario"):
        replayed(world, "both*3 other*3")


def test_an_invariant_sees_only_what_is_committed() -> None:
    """A transfer in a transaction never shows a wrong sum."""

    async def transfer(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = n - 1 WHERE id = 'a'")
            await db.execute("UPDATE t SET n = n + 1 WHERE id = 'b'")

    world = world_with(transfer)
    world.always("the sum stays", lambda moment: sum(row["n"] for row in moment.rows("t")) == 0)
    verdict = explored(world)
    assert verdict.passed, verdict.why


def test_a_change_is_seen_from_commit_to_commit() -> None:
    """What is written and undone within a transaction was never there."""

    async def there_and_back(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
            await db.execute("UPDATE t SET n = 0 WHERE id = 'a'")

    world = world_with(there_and_back)
    world.change("nothing changes", lambda before, after: before == after)
    verdict = explored(world)
    assert verdict.passed, verdict.why


@pytest.mark.parametrize("text", ["BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", "SAVEPOINT mine"])
def test_a_transaction_in_plain_sql_is_refused_with_advice(text: str) -> None:
    """The explorer could not roll it back; there is `db.transaction()`."""

    async def main(db: Connection) -> None:
        await db.execute(text)

    try:
        said = explored(world_with(main)).why
    except CallError as error:
        said = str(error)
    assert "db.transaction()" in said


# verdicts


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


def test_a_delivery_maps_the_faults_of_its_effect() -> None:
    """What is refused may be tried again, what is unknown may not; so nothing is sent twice."""
    letters = Delivery("letter", "letters", state="state", policy="hold")
    world = World("letters")
    world.table(letters)
    world.row(letters, "x", state="ready")
    send = world.effect("send")

    @world.process
    async def postman(db: Connection) -> None:
        async with db.deliver_once(letters, "x") as turn:
            if turn.won:
                try:
                    await send("x")
                except EffectRefused as error:
                    raise NotSent from error

    world.never_twice(send)
    world.sometimes("sent", lambda moment: bool(moment.calls(send)))
    verdict = explored(world, crashes=1, lost=1, errors=1, cancels=1)
    assert verdict.passed, verdict.why
