"""What the demo counts as wrong, what it plans, and what it prints as code."""

import ast
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from raceproof import Moved, Refused, bind
from raceproof.ops.demo.audit import Tally, Write, Wrong, judge
from raceproof.ops.demo.commands import Command, Status
from raceproof.ops.demo.database import connect_file, create
from raceproof.ops.demo.plan import fates
from raceproof.ops.demo.race import Score, Setting, Standing
from raceproof.ops.demo.report import CALL, DECLARATION, problem_of
from raceproof.ops.demo.sides import RACEPROOF, UNGUARDED, Guarded, Unguarded

OPEN = {"QUEUED", "SENT", "ACK"}
ENDS = {"DONE", "NO_EFFECT", "ERROR", "INVALID", "BUSY", "TIMEOUT"}


def allowed() -> set[tuple[str, str]]:
    """The guards of the command lifecycle, written out once more by hand."""
    to_ends = {(before, end) for before in OPEN for end in ENDS}
    return to_ends | {
        ("QUEUED", "SENT"),
        ("SEND_FAILED", "SENT"),
        ("QUEUED", "SEND_FAILED"),
        ("QUEUED", "ACK"),
        ("SENT", "ACK"),
    }


def test_exactly_the_declared_changes_are_right() -> None:
    """Of all hundred pairs of statuses, the audit accepts those of the guards and no other."""
    accepted = {(str(a), str(b)) for a in Status for b in Status if judge(a, b) is None}
    assert accepted == allowed()


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ("ACK", "ACK", Wrong.DOUBLE),
        ("DONE", "DONE", Wrong.DOUBLE),
        ("DONE", "SENT", Wrong.LOST),
        ("DONE", "TIMEOUT", Wrong.LOST),
        ("ACK", "SENT", Wrong.BACKWARDS),
        ("SENT", "SEND_FAILED", Wrong.BACKWARDS),
        ("SEND_FAILED", "ACK", Wrong.UNDECLARED),
    ],
)
def test_a_wrong_write_has_one_name(before: str, after: str, wrong: Wrong) -> None:
    """Each wrong write is counted under one heading."""
    assert judge(before, after) is wrong


def test_a_tally_knows_which_commands_lost_their_end() -> None:
    """A command that ended, was changed and came back is broken but not misled; one that did not come back is both."""
    tally = Tally()
    for number, (cmd_id, before, after) in enumerate(
        [
            ("a", "QUEUED", "DONE"),
            ("a", "DONE", "SENT"),
            ("a", "SENT", "DONE"),
            ("b", "QUEUED", "DONE"),
            ("b", "DONE", "SENT"),
            ("b", "SENT", "TIMEOUT"),
            ("c", "QUEUED", "ERROR"),
        ]
    ):
        tally.add(Write(number, UNGUARDED, cmd_id, before, after, "dispatcher", ""))
    assert tally.wrong == {Wrong.LOST: 2}
    assert tally.broken == {"a", "b"}
    assert tally.misled == 1
    assert tally.ended == 3


def test_a_seed_gives_the_same_commands_again() -> None:
    """Both sides live through the same because it is drawn beforehand, and from the seed alone."""
    assert fates(1, 50, 2.0, 1.0) == fates(1, 50, 2.0, 1.0)
    assert fates(1, 50, 2.0, 1.0) != fates(2, 50, 2.0, 1.0)


def test_without_delay_the_work_takes_no_time() -> None:
    """`--delay 0` takes away every pause between reading and writing, and changes nothing else."""
    usual, bare = fates(1, 50, 2.0, 1.0), fates(1, 50, 2.0, 0.0)
    assert {fate.publishing for fate in bare} == {0.0}
    assert {answer.handling for fate in bare for answer in fate.answers} == {0.0}
    assert [fate.sending for fate in bare] == [fate.sending for fate in usual]


def test_the_usual_code_writes_over_what_happened_during_its_work(tmp_path: Path) -> None:
    """The race of the demo in slow motion: the answer arrives while the dispatcher publishes."""
    path = tmp_path / "demo.db"
    create(path, fates(1, 1, 1.0, 1.0))
    for side in (Unguarded, Guarded):
        with closing(side(path, "dispatcher")) as late, closing(side(path, "handler-1")) as quick:
            late.record(Command.send, "c-0001", partial(quick.record, Command.finish, "c-0001", lambda: None))
    with closing(connect_file(path)) as connection:
        assert status(connection, "SELECT status FROM commands_unguarded") == "SENT"
        assert status(connection, "SELECT status FROM commands") == "DONE"


def test_the_printed_code_does_what_it_says(tmp_path: Path) -> None:
    """The listing's call is run, and its declaration is the one that the demo uses."""
    path = tmp_path / "demo.db"
    create(path, fates(1, 2, 1.0, 1.0))
    with closing(connect_file(path)) as connection:
        db = bind(connection)
        db.move(Command.finish, "c-0002").must()
        kinds = []
        for cmd_id in ("c-0001", "c-0002"):
            names = {
                "publish": lambda command: None,
                "command": None,
                "db": db,
                "Command": Command,
                "cmd_id": cmd_id,
            }
            exec(CALL, names)  # noqa: S102 - this is the test
            kinds.append(type(names["answer"]))
    assert kinds == [Moved, Refused]
    [declared] = ast.parse(DECLARATION.replace(", …)", ")")).body[0].body  # type: ignore[attr-defined]
    attributes = [node.attr for node in ast.walk(declared) if isinstance(node, ast.Attribute)]
    assert attributes == [*map(str, Command.send.sources), str(Command.send.target)]


@pytest.mark.parametrize(
    ("unguarded", "guarded", "problem"),
    [
        (Counter({Wrong.LOST: 1}), Counter(), None),
        (Counter(), Counter(), "the unguarded side did not go wrong"),
        (Counter({Wrong.LOST: 1}), Counter({Wrong.DOUBLE: 1}), "raceproof went wrong: 1 double move"),
    ],
    ids=["as it should be", "no race", "guard broken"],
)
def test_assert_fails_unless_only_the_usual_code_goes_wrong(
    unguarded: Counter[Wrong], guarded: Counter[Wrong], problem: str | None
) -> None:
    """A smoke test that could not fail would be worth nothing."""
    moved = Counter({"moved": 1})
    standing = Standing(
        Setting(seconds=1, handlers=1, commands=1, seed=1),
        1.0,
        {UNGUARDED: Score(moved, Tally(wrong=unguarded)), RACEPROOF: Score(moved, Tally(wrong=guarded))},
    )
    assert problem_of(standing) == problem


def status(connection: sqlite3.Connection, query: str) -> str:
    [found] = connection.execute(query).fetchone()
    return str(found)
