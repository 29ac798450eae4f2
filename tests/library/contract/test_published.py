"""The published contract: it runs outside this repository, is complete, and finds bugs of a driver."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from raceproof.testing import contract
from raceproof.testing.contract import ordering

ROOT = Path(__file__).parents[3]

BUGS = {
    "commits nothing": """
from raceproof.kernel.statement import COMMIT, ROLLBACK

class MyDriver(SqliteConnection):
    def execute(self, statement):
        return super().execute(ROLLBACK if statement == COMMIT else statement)
""",
    "returns one row at most": """
class MyDriver(SqliteConnection):
    def execute(self, statement):
        return super().execute(statement)[:1]
""",
    "sends a statement twice": """
class MyDriver(SqliteConnection):
    def execute(self, statement):
        super().execute(statement)
        return super().execute(statement)
""",
}


def run_as_a_stranger(folder: Path, bug: str = "", *options: str) -> tuple[int, str]:
    """Run the file of tests that CONTRIBUTING shows in an empty folder; `bug` replaces the driver in it."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (file,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (folder / "test_my_driver.py").write_text(file + bug, encoding="utf-8")
    settings = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    (folder / "pytest.ini").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


def test_a_driver_of_a_stranger_passes(tmp_path: Path) -> None:
    """The page's own file, as pasted."""
    returned, output = run_as_a_stranger(tmp_path)
    assert returned == 0, output
    (passed,) = re.findall(r"^(\d+) passed", output, re.MULTILINE)
    assert int(passed) > len(names_of_tests())


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_a_driver_of_a_stranger_is_found(tmp_path: Path, bug: str) -> None:
    """The run ends with a failed test."""
    returned, output = run_as_a_stranger(tmp_path, BUGS[bug], "--maxfail=1")
    assert returned == 1, output
    assert re.search(r"^FAILED test_my_driver\.py::test_", output, re.MULTILINE), output


def test_a_failed_assertion_shows_its_values(tmp_path: Path) -> None:
    """Pytest rewrites the assertions of the published modules too."""
    _, output = run_as_a_stranger(tmp_path, BUGS["sends a statement twice"], "-k", "moves_from_each_source")
    assert "where False = isinstance(Already(" in output


def test_every_test_of_the_package_is_part_of_the_contract() -> None:
    """A module that the package does not list would run in this repository alone."""
    assert names_of_tests() == {name for name in (*contract.__all__, *vars(ordering)) if name.startswith("test_")}


def names_of_tests() -> set[str]:
    """The tests that the published modules define."""
    files = Path(contract.__file__).parent.glob("*.py")
    texts = [file.read_text(encoding="utf-8") for file in files]
    return {name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)}
