"""`raceproof top` on real stores: every page shows what is there, the keys work, and nothing is written."""

import os
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static, TabbedContent

from tests.ops.doctor.conftest import APP, Ill
from tests.ops.doctor.declared import Job
from tests.ops.top.shop import fill, top


async def looked(pilot: Pilot[None], times: int = 1) -> None:
    """Wait until the terminal has looked so often."""
    app: Any = pilot.app
    while app.looks < times:
        await pilot.pause(0.02)
    await pilot.pause()


def cells(pilot: Pilot[None], page: str) -> list[list[str]]:
    table: DataTable[Any] = pilot.app.query_one(f"#table-{page}", DataTable)
    return [[str(cell) for cell in table.get_row_at(place)] for place in range(table.row_count)]


def text(pilot: Pilot[None], name: str) -> str:
    return str(pilot.app.query_one(name, Static).render())


async def test_every_page_shows_what_is_in_the_store(ill: Ill) -> None:
    """By its key, and as it changes; markup and control characters of a row are only text."""
    fill(ill)
    before = ill.db.read(Job, "job-21")
    app = top(ill)
    async with app.run_test(size=(140, 40)) as pilot:
        await looked(pilot)
        counts = {row[1]: row[2] for row in cells(pilot, "lifecycles")[:4]}
        assert counts == {"QUEUED": "19", "RUNNING": "7", "DONE": "5", "DEAD": "0"}
        tabs = app.query_one(TabbedContent)
        for key, page in (
            ("2", "claims"),
            ("3", "races"),
            ("4", "leaders"),
            ("5", "inboxes"),
            ("6", "stuck"),
        ):
            await pilot.press(key)
            assert tabs.active == page
            assert cells(pilot, page), page
        held = cells(pilot, "claims")
        assert held[0][1:3] == ["job-21", "worker-2"]
        assert held[0][5].startswith("expired ")
        assert ["[red]x[/red]\\x1b[2J"] * 2 in [row[1:3] for row in held]
        assert cells(pilot, "leaders")[0][:2] == ["bot", "host-a:4711"]
        assert ["ill_inbox", "received", "4"] in [row[:3] for row in cells(pilot, "inboxes")]
        assert any("worker-1" in row and "won" in row for row in cells(pilot, "races"))
        assert "order-" in str(cells(pilot, "stuck"))
        assert "raceproof " in text(pilot, "#repair")
        for number in range(3):
            ill.put("ill_jobs", id=f"new-{number}", status="QUEUED", made_at=1)
        await pilot.press("r", "1")
        await looked(pilot, 2)
        assert cells(pilot, "lifecycles")[0][2:4] == ["22", "+3"]
    assert ill.db.read(Job, "job-21") == before


async def test_a_repair_is_that_of_the_chosen_row(ill_sqlite: Ill) -> None:
    """The arrows choose."""
    fill(ill_sqlite)
    app = top(ill_sqlite)
    async with app.run_test(size=(140, 40)) as pilot:
        await looked(pilot)
        await pilot.press("6")
        seen = set()
        for _ in cells(pilot, "stuck"):
            seen.add(text(pilot, "#repair"))
            await pilot.press("down")
            await pilot.pause()
        assert len(seen) >= 3


async def test_an_empty_store_says_what_would_be_there(ill: Ill) -> None:
    """And a pause holds it still: only r looks."""
    app = top(ill, every=0.05)
    async with app.run_test(size=(100, 30)) as pilot:
        await looked(pilot, 2)
        await pilot.press("2")
        assert "No row is held" in text(pilot, "#empty-claims")
        assert "Nothing is stuck" in text(pilot, "#empty-stuck")
        await pilot.press("p")
        while app._looking:
            await pilot.pause(0.02)
        looks = app.looks
        await pilot.press("r")
        await looked(pilot, looks + 1)
        assert app.looks == looks + 1
        await pilot.press("plus")
        assert "every" in text(pilot, "#status")


async def test_a_store_that_does_not_answer_is_said_and_asked_again(ill_sqlite: Ill) -> None:
    """The screen stays as it was; when the store is back, so are its rows."""
    fill(ill_sqlite)
    path = Path(ill_sqlite.url.removeprefix("sqlite:///"))
    away = path.with_name("away.db")
    app = top(ill_sqlite)
    async with app.run_test(size=(100, 30)) as pilot:
        await looked(pilot)
        app._watch._store = None  # as after a cut
        os.rename(path, away)
        await pilot.press("r")
        while "does not answer" not in text(pilot, "#status"):
            await pilot.pause(0.02)
        assert cells(pilot, "lifecycles")
        os.rename(away, path)
        await pilot.press("r")
        await looked(pilot, 2)
        assert "does not answer" not in text(pilot, "#status")


@pytest.mark.parametrize("args", [("--help",), ()])
def test_without_a_terminal_it_says_so(cli: Any, ill_sqlite: Ill, args: tuple[str, ...]) -> None:
    """And its help names the keys."""
    result = cli("top", "--app", APP, "--url", ill_sqlite.url, *args)
    if args:
        assert result.exit_code == 0
        assert "Keys: 1 to 6" in result.output
    else:
        assert result.exit_code == 2
        assert "needs a terminal" in result.output
