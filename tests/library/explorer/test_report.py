"""What people see of a verdict in a terminal: the table of steps, and the certificate."""

import pytest

from raceproof.testing.explorer import Connection, World, explored
from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.changes import changes
from raceproof.testing.explorer.report import text, wrapped
from raceproof.testing.explorer.story import FAULTS, scenes
from tests.library.explorer.reported import fixed, hostile, moved, naive, order_only, replayed


def cells(table: str) -> list[list[str]]:
    """The lines of a table, each cut where the columns begin."""
    lines = table.splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("────"))
    starts = [place for place, one in enumerate(lines[rule]) if one == "─" and lines[rule][place - 1 : place] != "─"]
    body = lines[rule - 1 : lines.index("", rule)]
    return [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for line in body]


# the table


def test_each_operation_is_in_the_column_of_its_process() -> None:
    """With its number, its answer, and what it has changed."""
    table = cells(text(order_only(naive)))
    assert table[0] == ["step", "time", "callback", "poller", "rows"]
    told = {row[0]: row[1:] for row in table if row[0] and row[0] != "step"}
    assert told["5"] == ["0 s", "", "send('p1')", ""]
    assert told["7"] == ["0 s", "send('p1')", "", ""]
    assert told["6"][3] == "pictures p1: status READY→SENT"
    assert ["", "", "→ 'READY'", "", ""] in table
    assert ["", "", "", "→ 'READY'", ""] in table


def test_the_why_and_the_command_to_see_it_again_follow_the_table() -> None:
    """The schedule that is printed is the one that fails."""
    verdict = order_only(naive)
    *_, why, again = text(verdict, "shop.scenarios:naive").splitlines()
    assert why == f"why     {verdict.why}"
    assert "step 5 (poller) and again in step 7 (callback)" in why
    assert again == f"replay  raceproof explore shop.scenarios:naive --replay '{verdict.schedule}'"
    assert replayed(naive, verdict.schedule).why == verdict.why


def test_a_start_is_told_with_the_operation_that_follows() -> None:
    """And a restart is told as one."""
    told = scenes(replayed(naive, "callback*2 callback:dies-after callback*3"))
    assert [(scene.numbers, scene.start) for scene in told[1:]] == [
        ("1–2", "starts"),
        ("3", ""),
        ("4–5", "starts again"),
        ("6", ""),
    ]


@pytest.mark.parametrize("fate", [fate for fate in Fate if fate is not Fate.DONE], ids=lambda fate: fate.value)
def test_a_fault_is_seen_at_its_step(fate: Fate) -> None:
    """Just once, and in the column of the process that it hits."""
    table = cells(text(replayed(naive, f"callback callback:{fate.value}"), width=160))
    found = [row for row in table if "✗" in "".join(row)]
    assert [row[2] for row in found] == [FAULTS[fate]]
    lines = [row[2] for row in table]
    never = fate in (Fate.DIES_BEFORE, Fate.CANCELLED_BEFORE)
    beside = lines[lines.index(FAULTS[fate]) + (1 if never else -1)]
    assert beside == "SELECT status FROM pictures WHERE id = 'p1'"


def test_an_answer_that_nobody_got_is_not_told() -> None:
    """The rows of a SELECT after which its process died."""
    died, lived = (
        scenes(replayed(naive, f"callback callback:{fate} callback poller*2"))[1].answers
        for fate in ("dies-after", "cancelled-after")
    )
    assert died == ()
    assert lived == ("'READY'",)


def test_time_that_passes_is_a_line_of_its_own_and_moments_are_seconds_of_the_run() -> None:
    """The clock begins at nought; what the store stamps is told by the same clock."""
    told = scenes(replayed(moved, "worker"))
    assert [scene.operation for scene in told if scene.process is None] == ["the beginning", "30 s pass"]
    assert told[-1].clock == 30.0
    assert "at –→30 s" in told[-1].changes[0]


def test_of_a_history_its_entry_is_told_and_not_its_columns() -> None:
    """Neither its id nor the id of the call."""
    assert scenes(replayed(moved, "worker"))[-1].changes[1:] == ("history + Job.run j1 moved by worker",)


def test_a_value_cannot_drive_the_terminal_and_is_never_long() -> None:
    """It is shown, with what cannot be printed written out."""
    for said in (text(replayed(moved, "worker")), text(replayed(hostile, "worker"))):
        assert all(one.isprintable() or one == "\n" for one in said)
        assert "\\x1b[31m" in said
        assert max(map(len, said.splitlines()[:-1])) <= 120


def test_what_a_transaction_writes_is_told_where_others_can_see_it() -> None:
    """At its COMMIT; until then the line says that there is something."""

    def transfer(world: World) -> None:
        world.sql("CREATE TABLE accounts (id TEXT PRIMARY KEY, amount INTEGER)")
        world.sql("INSERT INTO accounts VALUES ('a', 5)")

        @world.process
        async def teller(db: Connection) -> None:
            async with db.transaction():
                await db.execute("UPDATE accounts SET amount = amount - 1 WHERE id = 'a'")
            await db.execute("UPDATE accounts SET amount = amount - 1 WHERE id = 'b'")

    told = [scene.changes for scene in scenes(replayed(transfer, "teller"))]
    assert told[2:] == [("(seen by nobody before COMMIT)",), ("accounts a: amount 5→4",), ("no row changes",)]


@pytest.mark.parametrize("width", [100, 130, 160])
def test_a_table_with_many_processes_and_wide_letters_keeps_its_width(width: int) -> None:
    """Every line but the command, which is there to be copied."""

    def crowd(world: World) -> None:
        @world.process(times=5)
        async def worker(db: Connection) -> None:
            await db.execute("SELECT '画像の準備ができました、すぐに送ってください'", *())

    *lines, _ = text(replayed(crowd, "worker-1"), width=width).splitlines()
    sizes = [len(line) + sum(one > "\u3000" for one in line) for line in lines]
    assert max(sizes) <= width
    assert any("画像" in line for line in lines)


def test_a_long_line_is_cut_at_a_space_where_it_has_one() -> None:
    """And in the middle of a word that is longer than the column."""
    assert wrapped("one two three four five six", 16) == ["one two three", "  four five six"]
    assert wrapped("x" * 20, 16) == ["x" * 16, "  xxxx"]


def test_rows_go_by_as_many_columns_as_tell_them_apart() -> None:
    """New ones, changed ones, and those that are gone."""
    before = {"t": [{"shop": "a", "id": 1, "n": 1}, {"shop": "a", "id": 2, "n": 1}], "u": []}
    after = {"t": [{"shop": "a", "id": 2, "n": None}], "u": [{"id": 7, "said": "", "by": None}]}
    assert changes(before, after) == ["t a 1: deleted", "t a 2: n 1→–", "u 7: said ''"]
    assert changes(after, after) == []


# certificates


def test_a_certificate_says_what_was_exhausted() -> None:
    """Figures that are the verdict's own."""
    verdict = explored(fixed).explore(deviations=2, seconds=60)
    assert verdict.passed
    said = text(verdict)
    covered = verdict.covered
    operations = set(covered.operations)
    assert said.startswith("fixed PASSED: no schedule with up to 2 deviations breaks it")
    for line in (
        f"schedules              {covered.schedules:,} in ",
        f"states                 {covered.states:,}, ",
        f"crash points           {covered.crash_points}: just before {len(operations)} and just after {len(operations)} "
        f"of {len(operations)} operations",
        f"lost acknowledgements  at {len(covered.points[Fate.UNANSWERED])} operations",
        f"errors                 at {len(covered.points[Fate.FAILS])} operations",
        "cancellations          at 4 operations",
        "expiries               time jumped ahead 0 times",
    ):
        assert line in said
    assert "replay" not in said


def test_what_is_missing_for_a_certificate_is_said() -> None:
    """Each on its own line, and nothing that reads like success."""

    def never(world: World) -> None:
        fixed(world)
        world.sometimes("a blue moon", lambda moment: False)

    said = text(explored(never).explore(deviations=0, crashes=0, lost=0, errors=0, cancels=0))
    assert said.startswith("never INCONCLUSIVE: ")
    assert "missing  never reached: a blue moon" in said
    assert "PASSED" not in said


def test_a_schedule_that_holds_is_told_as_that_and_is_no_certificate() -> None:
    """One schedule shows little."""
    said = text(replayed(fixed, "callback*2 poller*2"))
    assert said.startswith("fixed PASSED: what must hold holds in this schedule")
    assert "crash points" not in said


def test_a_run_that_fails_without_any_deviation_is_told_as_that() -> None:
    """The headline does not speak of fewer than none."""
    assert text(order_only(hostile)).startswith("hostile FAILED: even the undisturbed run fails")
