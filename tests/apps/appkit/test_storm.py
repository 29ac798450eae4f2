"""What all storms share: named checks, a failed storm that keeps its evidence, processes that are killed and frozen."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest

from appkit.storm import Instances, Report, until
from raceproof.testing import postgres

SLEEPS = ["timeit", "-n", "1", "-r", "1", "import time; print('up', flush=True); time.sleep(600)"]


def test_a_check_has_a_name_that_programs_can_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    """And a sentence without one gets its own."""
    report = Report("toy")
    report.check("no job was sent twice", False, "job-7", name="one-send-per-job")
    report.check("No lock is left behind!", True)
    assert report.show("json") == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [(one["name"], one["holds"]) for one in checks] == [
        ("one-send-per-job", False),
        ("no-lock-is-left-behind", True),
    ]
    report.show("table")
    assert "one-send-per-job" in capsys.readouterr().out


def test_a_storm_in_which_too_little_happened_has_failed() -> None:
    """A floor is a check like any other."""
    report = Report("toy")
    report.at_least("kills", 3, 2)
    assert report.violated
    assert [one.name for one in report.checks] == ["enough-kills"]


def test_a_failed_storm_keeps_its_logs_and_prints_where(capsys: pytest.CaptureFixture[str]) -> None:
    """After the processes and the folder they ran in are gone."""
    report = Report("toy")
    with Instances(report) as instances:
        (instances.folder / "one.log").write_text("the last words")
        report.check("nothing was lost", False)
    assert not instances.folder.exists()
    report.show("table")
    assert report.kept is not None
    assert str(report.kept) in capsys.readouterr().err
    assert (report.kept / "one.log").read_text() == "the last words"


def test_a_storm_that_held_leaves_nothing() -> None:
    """Its folder is removed."""
    report = Report("toy")
    with Instances(report) as instances:
        report.check("nothing was lost", True)
    assert report.kept is None
    assert not instances.folder.exists()


def test_a_storm_that_raises_keeps_its_logs_too() -> None:
    """The error says where they are."""
    report = Report("toy")

    def blow() -> None:
        with Instances(report) as instances:
            (instances.folder / "one.log").write_text("the last words")
            raise RuntimeError("the instances did not start")

    with pytest.raises(RuntimeError) as raised:
        blow()
    assert report.kept is not None
    assert str(report.kept) in raised.value.__notes__[0]
    assert (report.kept / "one.log").exists()


async def test_a_failed_storm_keeps_each_table_of_its_database(tmp_path: Path) -> None:
    """As a file that anything can read."""
    report = Report("toy")
    report.check("nothing was lost", False)
    with postgres() as server:
        url = server.database()
        connection = await asyncpg.connect(url)
        await connection.execute("""CREATE TABLE "odd ""name" (id int); INSERT INTO "odd ""name" VALUES (7)""")
        await connection.close()
        await report.keep_database(url, tmp_path)
    (path,) = (tmp_path / "database").iterdir()
    assert path.read_text().split() == ["id", "7"]


async def test_trouble_freezes_every_other_victim_and_lets_it_go_on() -> None:
    """A frozen process that goes on is the same process; a killed one is another."""
    with Instances() as instances:
        victim = instances.add("one", SLEEPS, {})
        assert await until(lambda: _said(victim), 30)
        trouble = asyncio.create_task(instances.trouble([victim], every=0.05, pause=0.05))

        async def both() -> bool:
            return instances.kills > 1 and instances.pauses > 1

        assert await until(both, 60, every=0.05)
        trouble.cancel()
        await asyncio.wait([trouble])
        assert victim.running
        assert await until(lambda: _said(victim), 30)


async def _said(victim: object) -> bool:
    return "up" in victim.said()  # type: ignore[attr-defined]
