"""What people see of a verdict: the table, the certificate, the diagram, the page and the test that keeps a schedule."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from html.parser import HTMLParser
from pathlib import Path
from runpy import run_path

import pytest

from raceproof import History, Lifecycle, move
from raceproof.testing.explorer import Connection, Explored, Limits, Verdict, World, explored
from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.as_test import source
from raceproof.testing.explorer.changes import changes
from raceproof.testing.explorer.html import page
from raceproof.testing.explorer.mermaid import sequence
from raceproof.testing.explorer.report import text, wrapped
from raceproof.testing.explorer.story import FAULTS, scenes

HOSTILE = '<script>alert(1)</script>\x1b[31m\n end; # --> \u202e`\'"""\\'


def naive(world: World) -> None:
    """Both look, both send."""
    world.sql("CREATE TABLE pictures (id TEXT PRIMARY KEY, status TEXT)")
    world.sql("INSERT INTO pictures VALUES ('p1', 'READY')")
    send = world.effect("send")

    async def handle(db: Connection) -> None:
        [(status,)] = await db.execute("SELECT status FROM pictures WHERE id = 'p1'")
        if status == "READY":
            await send("p1")
            await db.execute("UPDATE pictures SET status = 'SENT' WHERE id = 'p1'")

    world.process(name="callback")(handle)
    world.process(name="poller")(handle)
    world.never_twice(send)


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"


class Job(Lifecycle[Status], table="jobs", key="id", revision="rev", history=History(losers=True)):
    run = move(Status.QUEUED, to=Status.RUNNING, stamp="at", sets="note")


def moved(world: World) -> None:
    """A move with a value that should not reach a terminal."""
    world.table(Job)
    world.row(Job, "j1")
    world.row(Job, "j2")

    @world.process
    async def worker(db: Connection) -> None:
        await asyncio.sleep(30)
        await db.move(Job.run, "j1", by="worker", set={"note": HOSTILE * 9})

    world.always(
        "nothing happens", lambda moment: moment.clock < 0 or HOSTILE if moment.calls("none") else True
    )


def hostile(world: World) -> None:
    """Every text that can come from elsewhere does."""
    world.sql("CREATE TABLE notes (id TEXT PRIMARY KEY, said TEXT)")
    pay = world.effect(f"pay{HOSTILE}")

    @world.process
    async def worker(db: Connection) -> None:
        await db.execute("INSERT INTO notes VALUES (?, ?)", HOSTILE, HOSTILE)
        await db.execute("SELECT said FROM notes")
        await pay(HOSTILE, more=HOSTILE)

    world.always("calm", lambda moment: HOSTILE if moment.rows("notes") and moment.calls(pay) else True)


def fixed(world: World) -> None:
    """One statement decides who sends."""
    world.sql("CREATE TABLE pictures (id TEXT PRIMARY KEY, status TEXT)")
    world.sql("INSERT INTO pictures VALUES ('p1', 'READY')")
    send = world.effect("send")

    async def handle(db: Connection) -> None:
        if await db.execute(
            "UPDATE pictures SET status = 'SENT' WHERE id = 'p1' AND status = 'READY' RETURNING id"
        ):
            await send("p1")

    world.process(name="callback")(handle)
    world.process(name="poller")(handle)
    world.never_twice(send)


def order_only(scenario: Callable[[World], None]) -> Verdict:
    """Explored without faults."""
    return Explored(scenario, Limits(crashes=0, lost=0, errors=0, cancels=0)).explore()


def replayed(scenario: Callable[[World], None], schedule: str) -> Verdict:
    return explored(scenario).replay(schedule)


def cells(table: str) -> list[list[str]]:
    """The lines of a table, each cut where the columns begin."""
    lines = table.splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("────"))
    starts = [
        place for place, one in enumerate(lines[rule]) if one == "─" and lines[rule][place - 1 : place] != "─"
    ]
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


@pytest.mark.parametrize(
    "fate", [fate for fate in Fate if fate is not Fate.DONE], ids=lambda fate: fate.value
)
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


# the diagram


def test_the_diagram_has_the_processes_the_store_and_the_effects() -> None:
    """An arrow for each operation, and one back for each answer."""
    drawn = [line.strip() for line in sequence(order_only(naive)).splitlines()]
    assert drawn[:5] == [
        "sequenceDiagram",
        "participant P1 as callback",
        "participant P2 as poller",
        "participant Store",
        "participant E1 as send",
    ]
    assert "P2->>E1: 5 send('p1')" in drawn
    assert "Store-->>P1: 'READY'" in drawn
    assert "Note over Store: pictures p1: status READY→SENT" in drawn


@pytest.mark.parametrize(
    ("fate", "line"),
    [
        ("fails", "P1-xStore: "),
        ("unanswered", "Store--xP1: ✗ the answer is lost"),
        ("dies-before", "Note over P1: ✗ dies just before<br/>SELECT"),
        ("dies-after", "Note over P1: ✗ dies just after"),
    ],
)
def test_a_fault_is_drawn(fate: str, line: str) -> None:
    """As a broken arrow, or as a note."""
    drawn = sequence(replayed(naive, f"callback callback:{fate}"))
    assert sum(one.strip().startswith(line) for one in drawn.splitlines()) == 1


def test_a_hostile_text_stays_a_text_in_the_diagram() -> None:
    """Every line is one of ours: no text ends its line or begins an entity, a comment or markup."""
    for line in sequence(order_only(hostile)).splitlines()[1:]:
        kind, _, said = line.strip().replace("<br/>", " ").partition(": ")
        assert kind.startswith(("participant ", "Note over ")) or kind in (
            "P1->>Store",
            "P1->>E1",
            "Store-->>P1",
        )
        assert not set('<>"`{}$%\\') & set(said)
        assert said.count("#") == said.count(";")


# the page


class Reader(HTMLParser):
    """Collects the texts and tags of a page, and complains about a tag that is not closed."""

    def __init__(self, read: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(read)
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    """No script, no link to another place, and a policy that forbids both."""
    made = page([order_only(naive), explored(fixed).explore(deviations=1)])
    read = Reader(made)
    assert {tag for tag, _ in read.tags} & {"script", "link", "img", "iframe"} == set()
    assert all((given.get("href") or "#").startswith("#") for _, given in read.tags)
    assert "url(" not in made
    assert "@import" not in made
    assert "http" not in made.replace("http-equiv", "")
    assert any("default-src 'none'" in (given.get("content") or "") for _, given in read.tags)


def test_the_page_shows_the_steps_and_the_certificate() -> None:
    """And which of them has passed."""
    failing, passing = order_only(naive), explored(fixed).explore(deviations=1)
    read = Reader(page([failing, passing], ["a:naive", "a:fixed"]))
    assert {"1 of 2 scenarios passed", failing.why, "✗ failed", "✓ passed", "crash points"} <= set(read.texts)
    assert f"raceproof explore a:naive --replay '{failing.schedule}'" in read.texts
    assert [given["data-process"] for _, given in read.tags if "data-process" in given] == [
        scene.process for scene in scenes(failing)[1:]
    ]


def test_a_hostile_text_stays_a_text_on_the_page() -> None:
    """In rows, answers, effects and the reason."""
    calm, wild = (Reader(page([replayed(one, "worker")])) for one in (moved, hostile))
    assert {tag for tag, _ in wild.tags} <= {tag for tag, _ in calm.tags} | {"p"}
    assert sum("<script>alert(1)</script>\\x1b[31m" in one for one in wild.texts) >= 4
    assert not any("\x1b" in one or "\u202e" in one for one in wild.texts)


# the test


def kept(target: str, verdict: Verdict, file: Path) -> tuple[str, Callable[[], None]]:
    """The text of a kept schedule, and its one test."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(source(target, verdict, file), encoding="utf-8")
    found = run_path(str(file))
    [test] = [thing for name, thing in found.items() if name.startswith("test_")]
    return file.read_text(encoding="utf-8"), test


def test_a_kept_schedule_fails_as_long_as_it_breaks_and_passes_afterwards(tmp_path: Path) -> None:
    """As long as its steps are still there."""
    broken = replayed(naive, "callback*2 callback:dies-after callback*3")
    _, test = kept("tests.explorer.test_report:naive", broken, tmp_path / "test_broken.py")
    assert test.__name__ == "test_naive_holds_when_callback_dies_after"
    with pytest.raises(AssertionError, match="never twice: send"):
        test()
    held = replayed(fixed, "callback callback:dies-after callback*2 poller*2")
    _, test = kept("tests.explorer.test_report:fixed", held, tmp_path / "test_held.py")
    test()


def test_a_kept_schedule_of_a_file_finds_it_from_where_the_test_is(tmp_path: Path) -> None:
    """No path of this machine is in it."""
    file = tmp_path / "shop" / "kept_scenarios.py"
    file.parent.mkdir()
    file.write_text("from tests.explorer.test_report import naive\n")
    verdict = replayed(naive, "callback*2 callback:dies-after callback*3")
    written, test = kept(f"{file}:naive", verdict, tmp_path / "tests" / "test_kept.py")
    assert '"../shop"' in written
    assert str(tmp_path) not in written
    with pytest.raises(AssertionError, match="✗ dies just after"):
        test()


def test_a_hostile_reason_stays_in_the_docstring(tmp_path: Path) -> None:
    """What is written is Python, whatever the reason says."""
    written, test = kept("tests.explorer.test_report:hostile", order_only(hostile), tmp_path / "test_it.py")
    assert test.__doc__ is not None
    assert "alert(1)" in test.__doc__
    assert written.count('"""') == 4
