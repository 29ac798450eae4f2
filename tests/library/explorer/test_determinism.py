"""The same schedule gives the same trace: again, in another process, and from its written form."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raceproof import Claim, Delivery, Lifecycle, Worker, claimable, move
from raceproof.kernel.errors import CallError
from raceproof.testing.explorer import Connection, Explorer, Limits, World
from raceproof.testing.explorer.action import WAIT, Action, Fate, parsed, written
from tests.library.explorer.worlds import post


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DEAD = "DEAD"


class Job(Lifecycle[Status], table="jobs", key="job_id", terminal=(Status.DONE, Status.DEAD), history="job_moves"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    requeue = move(Status.RUNNING, to=Status.QUEUED)
    finish = move(Status.RUNNING, to=Status.DONE, sets="result")
    give_up = move(Status.QUEUED, Status.RUNNING, to=Status.DEAD)
    work = claimable(
        start,
        lease=30,
        attempts="attempts",
        max_attempts=3,
        not_before="rests_until",
        back=requeue,
        dead_letter=give_up,
    )


def naive(world: World) -> None:
    """Two processes that send before they write it down."""
    world.sql("CREATE TABLE pictures (id TEXT PRIMARY KEY, sent INTEGER); INSERT INTO pictures VALUES ('p', 0)")
    send = world.effect("send")

    async def sends(db: Connection) -> None:
        if await db.execute("SELECT 1 FROM pictures WHERE sent = 0"):
            await send("p", to=["a", "b"])
            await db.execute("UPDATE pictures SET sent = 1")

    world.process(name="callback")(sends)
    world.process(name="poller")(sends)
    world.never_twice(send)


def claims(world: World) -> None:
    """Two holders of one job after the other; the first comes back late."""
    world.table(Job)
    world.row(Job, "j", attempts=0)

    async def works(db: Connection) -> None:
        for held in await db.claim(Job.work, 1, by="twin"):
            await db.move(Job.finish, held, set={"result": "ok"})

    world.process(name="worker", times=2)(works)
    world.always("done once", lambda moment: len([1 for _, event in moment.told if event.outcome == "moved"]) < 2)


def workers(world: World) -> None:
    """The library's worker, which does not promise to run an item once: it dies after the send, and sends again."""
    world.table(Job)
    world.row(Job, "j", attempts=0)
    send = world.effect("send")

    async def works(db: Connection) -> None:
        async def handle(item: Claim[Any, Any]) -> dict[str, Any]:
            await send(item.key)
            return {"result": "ok"}

        await Worker(db, Job.work, handle, finish=Job.finish).run(until_idle=True)

    world.process(name="worker")(works)
    world.never_twice(send)


def deliveries(world: World) -> None:
    """Sent at most once, whatever happens: this one passes."""
    letters = Delivery("letter", "letters", state="state", policy="hold")
    world.table(letters)
    world.row(letters, "x", state="ready")
    send = world.effect("send")

    async def postman(db: Connection) -> None:
        await post(db, letters, send)

    world.process(times=2)(postman)
    world.never_twice(send)


SCENARIOS: dict[str, tuple[Callable[[World], None], int, str]] = {
    "naive": (naive, 2, "failed"),
    "claims": (claims, 1, "passed"),
    "workers": (workers, 2, "failed"),
    "deliveries": (deliveries, 1, "passed"),
}


def trace(name: str) -> str:
    """All that an exploration says, but for how long it took."""
    scenario, deviations, _ = SCENARIOS[name]
    world = World(name)
    scenario(world)
    said = Explorer(world, Limits(deviations=deviations, seconds=60)).explore().to_dict()
    said["covered"].pop("seconds")
    return json.dumps(said, indent=1, default=str)


@pytest.mark.parametrize("name", SCENARIOS)
def test_exploring_three_times_gives_one_trace(name: str) -> None:
    """The verdict, what was covered, and every step with its rows and answers."""
    first, second, third = (trace(name) for _ in range(3))
    assert first == second == third
    assert json.loads(first)["verdict"] == SCENARIOS[name][2]


def test_another_process_with_another_hash_seed_gives_the_same_trace() -> None:
    """Nothing depends on the order of a set, or on an address."""
    code = f"import json; from {__name__} import SCENARIOS, trace; print(json.dumps([trace(one) for one in SCENARIOS]))"
    elsewhere = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "4242")
    ]
    here = [trace(name) for name in SCENARIOS]
    for process in elsewhere:
        said, complained = process.communicate()
        assert process.returncode == 0, complained
        assert json.loads(said) == here


@pytest.mark.parametrize("name", ["naive", "workers"])
def test_a_replay_shows_what_the_exploration_has_shown(name: str) -> None:
    """The schedule that was printed is enough to see it again."""
    verdict = json.loads(trace(name))
    world = World(name)
    SCENARIOS[name][0](world)
    explorer = Explorer(world)
    for _ in range(2):
        again = json.loads(json.dumps(explorer.replay(verdict["schedule"]).to_dict(), default=str))
        assert again["steps"] == verdict["steps"]
        assert (again["why"], again["schedule"]) == (verdict["why"], verdict["schedule"])


# schedules in writing

NAMES = ("callback", "poller", "worker-1", "worker-2", "waiter", "prüfer")
ACTIONS = st.one_of(
    st.just(WAIT),
    st.builds(Action, st.integers(0, len(NAMES) - 1), st.integers(0, 20), st.sampled_from(list(Fate))),
)


@given(st.lists(ACTIONS, max_size=30))
@settings(max_examples=200, deadline=None, database=None)
def test_a_schedule_is_the_same_after_writing_and_reading(schedule: list[Action]) -> None:
    """Whatever is in it."""
    assert parsed(written(schedule, NAMES), NAMES) == schedule


@given(st.text(max_size=20))
@settings(max_examples=200, deadline=None, database=None)
def test_a_text_is_a_schedule_or_an_error_with_an_explanation(text: str) -> None:
    """Never anything else."""
    try:
        schedule = parsed(text, NAMES)
    except CallError as error:
        explained = "in the schedule" in str(error)
    else:
        explained = parsed(written(schedule, NAMES), NAMES) == schedule
    assert explained


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nobody", "no step"),
        ("callback:explodes", "no known fault"),
        ("callback:", "no step"),
        ("callback*", "no step"),
        ("callback*x", "no step"),
        ("callback#x", "no step"),
        ("callback:dies-after:fails", "no step"),
        ("callback;poller", "no step"),
        ("*2", "no step"),
        pytest.param("callback#0", "schedule"),
        pytest.param("callback*0", "schedule"),
        pytest.param("wait:dies-after", "schedule"),
        pytest.param("wait#2", "schedule"),
        pytest.param("callback*1000000000000", "schedule"),
    ],
)
def test_garbage_in_a_schedule_is_named(text: str, said: str) -> None:
    """With the word that is wrong."""
    with pytest.raises(CallError, match=said):
        parsed(text, NAMES)


def replaying(schedule: str) -> None:
    world = World("replays")
    world.sql("CREATE TABLE t (n INTEGER)")

    @world.process
    async def main(db: Connection) -> None:
        await db.execute("INSERT INTO t VALUES (1)")

    Explorer(world).replay(schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        "main*3",
        "main#2",
        "main:dies-after",
        "main main:fails*2 main*9",
        "wait",
        "main*2 wait",
    ],
)
def test_a_schedule_that_does_not_fit_is_an_error_that_says_where(schedule: str) -> None:
    """It belongs to another version of the scenario."""
    with pytest.raises(CallError, match="step"):
        replaying(schedule)


@pytest.mark.parametrize("name", ["wait", "two words", "a:b", "a#2", "a*2", " "])
def test_a_name_that_could_not_be_read_back_is_refused(name: str) -> None:
    """Every schedule that is printed can be replayed."""
    world = World("names")

    async def main(db: Connection) -> None:
        await asyncio.sleep(1)

    with pytest.raises(CallError, match="name"):
        world.process(name=name)(main)
