"""The scenes of the demo in slow motion, in one process: what each side writes, what is counted, and what is printed."""

import ast
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from raceproof import Delivery, Lease, LeaseGranted, Lost, Moved, Refused, bind
from raceproof.ops.demo.database import connect_file
from raceproof.ops.demo.scenes import SCENES, Scene, jobs, pictures, slots
from raceproof.ops.demo.scenes.page import problem_of
from raceproof.ops.demo.scenes.relay import LEASE, Hand
from raceproof.ops.demo.scenes.stage import Playbill, Score
from raceproof.ops.demo.sides import RACEPROOF, SIDES, UNGUARDED

STALE_WORKER, DEPLOY_OVERLAP, CALLBACK_POLLER = (
    SCENES[name] for name in ("stale-worker", "deploy-overlap", "callback-poller")
)

OVER = {
    "stale-worker": """
        UPDATE jobs SET claimed_until = '2020-01-01 00:00:00.000' WHERE claimed_by IS NOT NULL;
        UPDATE jobs_unguarded SET claimed_until = 0 WHERE claimed_by IS NOT NULL;
    """,
    "deploy-overlap": """
        UPDATE raceproof_lease SET until = '2020-01-01 00:00:00.000';
        UPDATE heartbeat SET at = 0;
    """,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scene.db"


def rows(scene: Scene, path: Path, *numbers: int) -> None:
    """A database with these rows on both sides."""
    scene.create(path)
    with closing(connect_file(path)) as connection:
        for side in SIDES:
            connection.executemany(scene.put_in[side], [(scene.key(number),) for number in numbers])


def figures(scene: Scene, path: Path, side: str) -> list[int]:
    with closing(connect_file(path)) as connection:
        counted = scene.count(connection, side)
    return [counted[figure.name] for figure in scene.figures if figure.wrong]


def taken_over(first: Hand, second: Hand, later: Callable[[], None]) -> list[str]:
    """The first takes what there is; when its lease is over, so does the second."""
    mine = first.take()
    assert mine
    later()
    assert second.take() == mine
    return mine


def lease_is_over(scene: Scene, path: Path) -> None:
    """The time of everybody has passed."""
    with closing(connect_file(path)) as connection:
        connection.executescript(OVER[scene.name])


@pytest.mark.parametrize("late_last", [True, False], ids=["after the end", "while another is at it"])
@pytest.mark.parametrize(
    ("scene", "open_side", "unguarded"),
    [
        (STALE_WORKER, jobs.open_side, {True: [2, 0], False: [0, 2]}),
        (DEPLOY_OVERLAP, slots.open_side, {True: [2, 2], False: [2, 2]}),
    ],
    ids=["stale worker", "deploy overlap"],
)
def test_who_was_replaced_writes_only_without_a_guard(
    path: Path, scene: Scene, open_side: Any, unguarded: dict[bool, list[int]], late_last: bool
) -> None:
    """Both orders: the late one comes when the other has finished, or before."""
    rows(scene, path, 1, 2)
    for side, expected in ((UNGUARDED, unguarded[late_last]), (RACEPROOF, [0, 0])):
        with closing(open_side(side, path, "a")) as first, closing(open_side(side, path, "b")) as second:
            keys = taken_over(first, second, lambda: lease_is_over(scene, path))
            for hand in (second, first) if late_last else (first, second):
                for key in keys:
                    hand.finish(key)
        assert figures(scene, path, side) == expected


def test_who_sends_while_another_sends_sends_only_without_a_turn(path: Path) -> None:
    """The poller comes while the callback is sending."""
    rows(CALLBACK_POLLER, path, 1)
    for kind in (pictures.Unguarded, pictures.Guarded):
        with closing(connect_file(path)) as one, closing(connect_file(path)) as other:
            callback, poller = kind(one, "callback-1"), kind(other, "poller")

            def arrives(sender: str, name: str = kind.name, connection: sqlite3.Connection = one) -> None:
                connection.execute(
                    "INSERT INTO sent (side, picture_id, sender) VALUES (?, 'p-0001', ?)", (name, sender)
                )

            def send(poller: Any = poller, arrives: Callable[[str], None] = arrives) -> None:
                poller.deliver("p-0001", lambda: arrives("poller"))
                arrives("callback-1")

            assert callback.deliver("p-0001", send) is None
            assert callback.unsent() == []
    assert figures(CALLBACK_POLLER, path, UNGUARDED) == [1, 0]
    assert figures(CALLBACK_POLLER, path, RACEPROOF) == [0, 0]


def test_a_picture_that_nobody_sent_is_counted(path: Path) -> None:
    """Or a guard that forbids everything would look perfect."""
    rows(CALLBACK_POLLER, path, 1, 2)
    assert figures(CALLBACK_POLLER, path, RACEPROOF) == [0, 2]


def test_the_printed_code_of_the_stale_worker_does_what_it_says(path: Path) -> None:
    """The first one's answer is Lost when the job was taken over during its work."""
    rows(STALE_WORKER, path, 1, 2)
    with (
        closing(connect_file(path)) as connection,
        closing(jobs.open_side(RACEPROOF, path, "other")) as other,
    ):
        declaration, call = STALE_WORKER.code.guarded.split("\n\n")

        def work(mine: object) -> str:
            if getattr(mine, "key", None) == "j-0001":
                lease_is_over(STALE_WORKER, path)
                assert "j-0001" in other.take()
            return "late"

        answers = list(run(call, db=bind(connection), Job=jobs.Job, work=work))
        assert [type(answer) for answer in answers] == [Lost]
    [declared] = ast.parse(declaration.replace(", …)", ")")).body
    assert isinstance(declared, ast.ClassDef)
    names = [node.targets[0].id for node in declared.body if isinstance(node, ast.Assign)]  # type: ignore[attr-defined]
    assert names == [*jobs.Job.spec.moves, *jobs.Job.spec.claims]
    assert f"lease={LEASE:g}" in declaration


def test_the_printed_code_of_the_deploy_overlap_does_what_it_says(path: Path) -> None:
    """Moved for the leader, Refused for one that was replaced during its job."""
    rows(DEPLOY_OVERLAP, path, 1, 2)
    with closing(connect_file(path)) as connection, closing(slots.open_side(RACEPROOF, path, "new")) as new:

        def replaced(slot: str) -> None:
            lease_is_over(DEPLOY_OVERLAP, path)
            assert new.take()

        names = {
            "db": bind(connection),
            "Lease": Lease,
            "Leading": LeaseGranted,
            "Slot": slots.Slot,
            "me": "old",
        }
        code = DEPLOY_OVERLAP.code.guarded
        [first] = run(code, **names, slot="s-0001", run_job=lambda slot: None)
        assert isinstance(first, Moved)
        lease_is_over(DEPLOY_OVERLAP, path)
        [second] = run(code, **names, slot="s-0002", run_job=replaced)
        assert isinstance(second, Refused)
        assert "epoch" in second.unmet[0]


def test_the_printed_code_of_the_callback_does_what_it_says(path: Path) -> None:
    """The second one that runs it does not send."""
    rows(CALLBACK_POLLER, path, 1)
    sent: list[str] = []
    with closing(connect_file(path)) as connection:
        for _ in range(2):
            names = {"db": bind(connection), "Delivery": Delivery}
            exec(CALLBACK_POLLER.code.guarded, {**names, "picture_id": "p-0001", "send": sent.append})  # noqa: S102
    assert sent == ["p-0001"]


def test_the_highlighted_lines_exist() -> None:
    """A listing that was changed may have left its marks behind."""
    for scene in SCENES.values():
        code = scene.code
        for text, marks in (
            (code.unguarded, code.unguarded_lines),
            (code.guarded, code.guarded_lines),
        ):
            lines = text.splitlines()
            assert all(lines[mark].partition("#")[0].strip() for mark in marks)


@pytest.mark.parametrize(
    ("unguarded", "guarded", "problem"),
    [
        ((4, 4), (0, 0), None),
        ((0, 0), (0, 0), "stale-worker: the unguarded side did not go wrong"),
        ((4, 4), (0, 1), "stale-worker: raceproof went wrong: 1 finished by a late worker"),
    ],
    ids=["as it should be", "no race", "guard broken"],
)
def test_assert_fails_unless_only_the_usual_code_goes_wrong(
    unguarded: tuple[int, int], guarded: tuple[int, int], problem: str | None
) -> None:
    """A smoke test that could not fail would be worth nothing."""
    names = [figure.name for figure in STALE_WORKER.figures if figure.wrong]
    counted = {
        side: {"jobs_done": 1, "late_results_refused": 0, **dict(zip(names, values, strict=True))}
        for side, values in ((UNGUARDED, unguarded), (RACEPROOF, guarded))
    }
    assert problem_of(Score(Playbill(STALE_WORKER, 1, 1), 1.0, 8, counted)) == problem


def run(code: str, **names: Any) -> Iterator[Any]:
    """Run a listing; gives its answer."""
    exec(code, names)  # noqa: S102 - this is the test
    yield names["answer"]
