"""`raceproof explore`: which scenarios, how far, in which form, and how it ends."""

import json
import re
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from runpy import run_path

import pytest
from click.testing import CliRunner, Result

from raceproof.ops.cli.commands.explore import _progress
from raceproof.ops.cli.program import program
from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.story import FAULTS
from raceproof.testing.explorer.verdict import Covered, Limits
from tools.generate_docs import EXAMPLES, ROOT, example

Cli = Callable[..., Result]

TWICE = f"{EXAMPLES / 'sending_twice.py'}:one_picture"
ONCE = f"{EXAMPLES / 'sending_once.py'}:one_picture"

SCENARIOS = '''
"""Scenarios of every kind, and things that are none."""

from raceproof.testing.explorer import World, explore

NUMBER = 7


def helper(one, two): ...


def calm(world: World) -> None:
    @world.process
    async def reader(db) -> None:
        await db.execute("SELECT 1")


@explore(deviations=0, crashes=0, lost=0, errors=0, cancels=0)
def test_rare(world: World) -> None:
    calm(world)
    world.sometimes("a blue moon", lambda moment: False)


class Group:
    calm = staticmethod(calm)


def broken(World) -> None:
    World.nonsense()


def empty(World) -> None: ...
'''


@pytest.fixture
def cli() -> Cli:
    """Run the command in this process."""
    runner = CliRunner()

    def run(*args: str) -> Result:
        result = runner.invoke(program, ["explore", *args])
        assert "Traceback" not in result.output
        return result

    return run


@pytest.fixture
def scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder; it is another one in every test."""
    name = f"scenarios_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(SCENARIOS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


# how it ends


def test_a_schedule_that_fails_is_printed_and_ends_with_1(cli: Cli) -> None:
    """On stdout, with the command that shows it again."""
    ended = cli(TWICE)
    assert ended.exit_code == 1
    assert "✗ dies just after" in ended.stdout
    assert f"raceproof explore {TWICE} --replay 'callback*2 callback:dies-after callback*3'" in ended.stdout
    assert ended.stderr == ""


def test_a_certificate_ends_with_0(cli: Cli) -> None:
    """It says what was exhausted."""
    ended = cli(ONCE, "--deviations", "1")
    assert ended.exit_code == 0, ended.output
    assert "one_picture PASSED: no schedule with up to 1 deviation breaks it" in ended.stdout


def test_an_exploration_that_shows_nothing_ends_with_3(cli: Cli, scenarios: str) -> None:
    """And the scenario's own limits hold where none is given."""
    ended = cli(f"{scenarios}:test_rare")
    assert ended.exit_code == 3
    assert "test_rare INCONCLUSIVE" in ended.stdout
    assert "missing  never reached: a blue moon" in ended.stdout
    assert "no crash was ever reached" not in ended.stdout
    assert "up to 2 in a run" in cli(f"{scenarios}:test_rare", "--crashes", "2").stdout


def test_of_several_scenarios_the_worst_decides(cli: Cli, scenarios: str) -> None:
    """A failure more than what is inconclusive, and that more than a success."""
    assert cli(ONCE, f"{scenarios}:test_rare", "--deviations", "0").exit_code == 3
    ended = cli(f"{scenarios}:test_rare", TWICE, "--deviations", "1")
    assert ended.exit_code == 1
    assert "test_rare INCONCLUSIVE" in ended.stdout
    assert "one_picture FAILED" in ended.stdout


def test_without_faults_only_the_order_is_tried_unless_one_is_asked_for(cli: Cli) -> None:
    """The interleaving comes first then."""
    assert "✗" not in cli(TWICE, "--no-faults").stdout
    assert "✗ dies just after" in cli(TWICE, "--no-faults", "--crashes", "1").stdout


# which scenarios


def test_a_module_or_a_file_stands_for_all_its_scenarios(cli: Cli, scenarios: str) -> None:
    """Those with the decorator, and functions whose parameter is `world`."""
    for target in (scenarios, f"{scenarios}.py", f"./{scenarios}.py"):
        found = json.loads(cli(target, "-o", "json", "--deviations", "1").stdout)
        assert [one["target"] for one in found] == [f"{target}:calm", f"{target}:test_rare"]


def test_a_scenario_may_be_within_something(cli: Cli, scenarios: str) -> None:
    """The part behind the colon may have dots."""
    assert cli(f"{scenarios}:Group.calm", "--no-faults").exit_code == 0


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "no_such_module_anywhere:x",
            "no_such_module_anywhere: no module 'no_such_module_anywhere'",
        ),
        ("nowhere.py:x", "nowhere.py: there is no such file"),
        ("{}:nothing", "has no 'nothing'; it has calm, test_rare."),
        ("{}:NUMBER", "is no scenario; that is a function with one parameter, `world`"),
        ("{}:helper", "is no scenario"),
        ("json", "json: no scenario there"),
    ],
)
def test_a_wrong_name_is_a_usage_error_that_says_what_there_is(
    cli: Cli, scenarios: str, target: str, said: str
) -> None:
    """And does not speak of options of other commands."""
    ended = cli(target.format(scenarios))
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert "--app" not in ended.stderr


def test_a_file_that_another_module_hides_is_not_taken_for_it(cli: Cli, scenarios: str) -> None:
    """`json.py` in the current folder."""
    Path("json.py").write_text(SCENARIOS, encoding="utf-8")
    ended = cli("json.py:calm")
    assert ended.exit_code == 2
    assert "another module is called json, too" in ended.stderr


def test_a_scenario_that_cannot_be_declared_says_so(cli: Cli, scenarios: str) -> None:
    """An error of the scenario, and one without processes."""
    ended = cli(f"{scenarios}:broken")
    assert ended.exit_code == 1
    assert f"{scenarios}:broken: declaring the scenario failed: AttributeError" in ended.stderr
    assert "nothing to explore; declare a process" in cli(f"{scenarios}:empty").stderr


def test_a_module_that_fails_when_it_is_imported_says_so(cli: Cli, scenarios: str) -> None:
    """With what it failed."""
    Path("failing_scenarios.py").write_text("1 / 0\n", encoding="utf-8")
    ended = cli("failing_scenarios.py:x")
    assert ended.exit_code == 1
    assert "failing_scenarios.py: the import failed: ZeroDivisionError" in ended.stderr


# one schedule


def test_a_schedule_is_replayed(cli: Cli) -> None:
    """The one that was asked for, with its own end."""
    ended = cli(TWICE, "--replay", "callback*4 poller")
    assert ended.exit_code == 0
    assert "one_picture PASSED: what must hold holds in this schedule" in ended.stdout
    assert cli(TWICE, "--replay", "callback*2 poller*4 callback").exit_code == 1


def test_a_schedule_that_does_not_fit_says_where(cli: Cli) -> None:
    """A word that is no step, and a step that is not there."""
    unknown, unfit = (cli(TWICE, "--replay", schedule).stderr for schedule in ("nobody", "callback*9"))
    assert "'nobody' in the schedule is no step; the processes are callback, poller" in unknown
    assert "step 5 of the schedule is 'callback', which is not possible there" in unfit


@pytest.mark.parametrize("option", ["--replay", "--as-test"])
def test_a_schedule_belongs_to_one_scenario(cli: Cli, scenarios: str, option: str) -> None:
    """With several it is not clear which is meant."""
    ended = cli(scenarios, option, "x")
    assert ended.exit_code == 2
    assert f"{option} takes exactly one scenario; name one of {scenarios}:calm, {scenarios}:test_rare" in ended.stderr


def test_a_failing_schedule_is_written_as_a_test(cli: Cli, tmp_path: Path) -> None:
    """And the test fails as long as nothing is mended; what passes leaves no test."""
    file = tmp_path / "test_kept.py"
    ended = cli(TWICE, "--as-test", str(file))
    assert f"wrote {file}" in ended.stderr
    test = run_path(str(file))["test_one_picture_holds_when_callback_dies_after"]
    with pytest.raises(AssertionError, match="never twice: send"):
        test()
    other = tmp_path / "test_other.py"
    ended = cli(ONCE, "--deviations", "0", "--no-faults", "--as-test", str(other))
    assert "no schedule fails, so there is no test to write" in ended.stderr
    assert not other.exists()


# the forms


def test_the_data_is_the_same_in_every_form(cli: Cli, tmp_path: Path) -> None:
    """JSON, Mermaid and HTML; into a file as on stdout."""
    [found] = json.loads(cli(TWICE, "-o", "json").stdout)
    assert (found["target"], found["verdict"]) == (TWICE, "failed")
    assert [step["fault"] for step in found["steps"]] == ["", "", "dies-after", "", "", ""]
    assert found["why"] in cli(TWICE, "-o", "html").stdout.replace("&#x27;", "'")
    assert cli(TWICE, "-o", "mermaid").stdout.startswith("sequenceDiagram\n    participant P1 as callback\n")
    file = tmp_path / "found.mmd"
    ended = cli(TWICE, "-o", "mermaid", "--output-file", str(file))
    assert ended.stdout == ""
    assert file.read_text(encoding="utf-8") == cli(TWICE, "-o", "mermaid").stdout


def test_a_file_that_cannot_be_written_is_a_failure_with_a_reason(cli: Cli, tmp_path: Path) -> None:
    """Not a traceback."""
    ended = cli(TWICE, "--output-file", str(tmp_path / "none" / "x.txt"))
    assert ended.exit_code == 1
    assert "cannot be written: No such file or directory" in ended.stderr


def test_progress_is_told_on_a_terminal_and_wiped_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal only: into a file or a pipe goes nothing."""

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    now = iter([0.0, 0.05, 5.0])
    monkeypatch.setattr("raceproof.ops.cli.commands.explore._monotonic", lambda: next(now))
    monkeypatch.setattr("raceproof.ops.cli.commands.explore.get_terminal_size", lambda: Size())
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with _progress("scenario", Limits(seconds=10)) as tell:
        assert tell is not None
        tell(Covered(schedules=100))
        tell(Covered(schedules=1200, states=800, exhausted=0))
    said = terminal.getvalue()
    assert said.startswith(
        "\r\x1b[Kscenario  ██████████░░░░░░░░░░  5.0 s  1,200 schedules  800 states  deviations: 1 of 3"
    )
    assert said.endswith("\r\x1b[K")
    monkeypatch.setattr(sys, "stderr", StringIO())
    with _progress("scenario", Limits()) as tell:
        assert tell is None


class Size:
    columns = 120


# the newcomer's page


def test_the_page_keeps_its_word_of_ten_lines() -> None:
    """The scenario that it shows has so many, without the empty ones."""
    _, *shown, _ = filter(str.strip, example("sending_twice.py", "scenario").splitlines())
    assert len(shown) == 10


def test_the_page_names_every_fault_in_the_words_of_the_table() -> None:
    """As it is written in a schedule, and as it is shown."""
    page = (ROOT / "docs" / "explorer.md").read_text(encoding="utf-8")
    for fate in Fate:
        if fate is not Fate.DONE:
            assert f"`name:{fate.value}`" in page
            kind, _, when = FAULTS[fate].partition(" just ")
            assert re.search(rf"{kind}.*{when}", page), FAULTS[fate]


def test_what_the_page_says_about_sending_again_is_so(cli: Cli, tmp_path: Path) -> None:
    """The price of `hold` is named with the other choice: with `resend` a schedule sends twice."""
    file = tmp_path / "sending_resent.py"
    file.write_text((EXAMPLES / "sending_once.py").read_text().replace('policy="hold"', 'policy="resend"'))
    ended = cli(f"{file}:one_picture", "--deviations", "1")
    assert ended.exit_code == 1
    assert "never twice: send" in ended.stdout
