"""The list of planted bugs, and what runs it: `make storm-mutants` takes long, so what can be checked without it is."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tools.storm_mutants import ROOT, Mutant, _copy, chosen, mutants, read, run_all, stale, verdict

LISTED = mutants()
TOY = """
import json, sys
assert sys.argv[1:5] == ["storm", "--short", "-o", "json"], sys.argv
from toy.work import sends
once = sends("job") == 1
print("a line before the report", file=sys.stderr)
print(json.dumps({"checks": [{"name": "one-send-per-job", "check": "once", "holds": once, "detail": ""},
                             {"name": "quiet", "check": "quiet", "holds": True, "detail": ""}]}))
sys.exit(not once)
"""


def test_each_planted_bug_applies_in_exactly_one_place() -> None:
    """Otherwise the list is older than the source."""
    assert stale(LISTED, ROOT) == []


def test_each_planted_bug_changes_something_and_compiles() -> None:
    """A storm that cannot start proves nothing."""
    for mutant in LISTED:
        assert mutant.find != mutant.replace, mutant.name
        assert mutant.file.startswith(("apps/", "src/raceproof/")), mutant.name
        if mutant.file.endswith(".py"):
            compile(mutant.edited(ROOT), mutant.file, "exec")


def test_names_are_unique() -> None:
    """A line of the output is one planted bug."""
    assert [name for name, number in Counter(one.name for one in LISTED).items() if number > 1] == []


def test_each_planted_bug_names_a_check_of_its_storm() -> None:
    """The name stands as a literal in the source of the application or of the kit."""
    for mutant in LISTED:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", mutant.check), mutant.name
        folders = (ROOT / "apps" / mutant.app, ROOT / "apps" / "appkit")
        known = any(f'"{mutant.check}"' in path.read_text() for at in folders for path in at.rglob("*.py"))
        assert known, f"{mutant.name}: no check is called {mutant.check}"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A project with one application, whose storm is over at once."""
    app = tmp_path / "apps" / "toy"
    app.mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (app / "__init__.py").write_text("")
    (app / "__main__.py").write_text(TOY)
    (app / "work.py").write_text("def sends(job):\n    return 1\n")
    lists = tmp_path / "tests" / "apps" / "toy"
    lists.mkdir(parents=True)
    (lists / "storm_mutants.toml").write_text(
        '[[mutant]]\nname = "toy: sends twice"\nfile = "apps/toy/work.py"\n'
        'find = "return 1"\nreplace = "return 2"\ncheck = "one-send-per-job"\n'
    )
    return tmp_path


def test_a_bug_that_violates_its_check_is_caught(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the source itself is not touched."""
    assert run_all(mutants(toy), toy, 60) == 0
    said = capsys.readouterr().out
    assert "toy: sends twice [one-send-per-job]: caught" in said
    assert "1 of 1 caught" in said
    assert "return 1" in (toy / "apps" / "toy" / "work.py").read_text()


def test_a_bug_that_no_check_notices_fails_the_run(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also if another check than the named one is violated."""
    (listed,) = mutants(toy)
    harmless = Mutant(listed.app, "harmless", listed.file, "return 1", "return 2 - 1", listed.check)
    elsewhere = Mutant(listed.app, "elsewhere", listed.file, "return 1", "return 2", "quiet")
    assert run_all([harmless, elsewhere], toy, 60, tries=1) == 1
    said = capsys.readouterr().out
    assert "harmless [one-send-per-job]: SURVIVED" in said
    assert "SURVIVED quiet, although these are violated: one-send-per-job" in said
    assert "0 of 2 caught" in said


def test_a_storm_that_is_red_without_a_bug_stops_the_run(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it would say afterwards means nothing."""
    (toy / "apps" / "toy" / "work.py").write_text("def sends(job):\n    return 1 + len(job)\n")
    (listed,) = mutants(toy)
    assert run_all([listed], toy, 60) == 1
    assert "VIOLATED one-send-per-job" in capsys.readouterr().out


def test_a_storm_that_crashes_or_hangs_has_caught_nothing(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is neither caught nor survived."""
    (listed,) = mutants(toy)
    crash = Mutant(listed.app, "crash", listed.file, "return 1", "raise SystemExit('boom')", listed.check)
    hang = Mutant(listed.app, "hang", listed.file, "return 1", "import time; time.sleep(600)", listed.check)
    assert run_all([crash], toy, 60, baseline=False, tries=1) == 1
    assert run_all([hang], toy, 2, baseline=False, tries=1) == 1
    said = capsys.readouterr().out
    assert "crash [one-send-per-job]: NOT RUN: no report: " in said
    assert "boom" in said
    assert "NOT RUN: did not end within 2 s" in said


def test_a_check_that_the_storm_does_not_have_is_named() -> None:
    """A typing error in the list is not a survivor."""
    mutant = Mutant("toy", "x", "f", "a", "b", "no-such-check")
    assert verdict(mutant, read('{"checks": []}', "")) == "NOT RUN: the storm has no check 'no-such-check'"


def test_bugs_are_chosen_by_application_and_name(toy: Path) -> None:
    """As in `--app devices --only late`."""
    listed = mutants(toy)
    assert chosen(listed, "toy", "TWICE") == listed
    assert chosen(listed, "devices", "") == []
    assert chosen(listed, "", "late") == []


def test_a_server_of_another_user_can_enter_the_folder_of_a_planted_bug(tmp_path: Path) -> None:
    """PostgreSQL does not run as root: where we are, its folder must be open."""
    for part in ("src", "apps"):
        (tmp_path / "root" / part).mkdir(parents=True)
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    _copy(tmp_path / "root", target)
    assert target.stat().st_mode & 0o055 == 0o055
