"""Which lifecycles, which store: `--app` and `--url`, and what is said when they lead nowhere."""

import json
import sys
from pathlib import Path

import pytest

from raceproof.connect.url import open_sqlite
from raceproof.declare import spec_of
from raceproof.ops.cli.location import parse_location
from tests.ops.cli.conftest import APP, Cli
from tests.ops.cli.declared import Command

TOML = """
name = "Door"
table = "doors"
statuses = ["OPEN", "CLOSED"]
[moves.close]
from = ["OPEN"]
to = "CLOSED"
"""


def names(cli: Cli, *args: str, **options: object) -> list[str]:
    result = cli("lifecycles", *args, "-o", "ids", **options)
    assert result.exit_code == 0, result.stderr
    return result.stdout.split()


def test_a_module_gives_all_its_lifecycles(cli: Cli) -> None:
    """Without an object, every lifecycle that the module has is taken, in the order of the module."""
    assert names(cli, "--app", APP) == ["Command", "Job", "Ticket", "Line", "Payment"]


def test_one_object_gives_one_lifecycle(cli: Cli) -> None:
    """A Lifecycle class and its Spec are the same target."""
    assert names(cli, "--app", f"{APP}:Job") == ["Job"]
    assert names(cli, "--app", f"{APP}:Job.spec") == ["Job"]


def test_a_toml_file_gives_its_lifecycle(cli: Cli, tmp_path: Path) -> None:
    """A path that ends in .toml is read as a declaration, beside other targets."""
    path = tmp_path / "door.toml"
    path.write_text(TOML)
    assert names(cli, "--app", str(path), "--app", f"{APP}:Job") == ["Door", "Job"]


def test_a_module_in_the_current_folder_is_found(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is importable, and what the module prints does not get into the data."""
    source = f"print('loading')\nfrom {APP} import Job, Ticket\nfew = [Job, Ticket]\n"
    (tmp_path / "found_in_current_folder.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    assert names(cli, "--app", "found_in_current_folder:few") == ["Job", "Ticket"]


def test_the_environment_names_the_lifecycles(cli: Cli) -> None:
    """RACEPROOF_APP stands for --app; several are separated by spaces."""
    assert names(cli, env={"RACEPROOF_APP": f"{APP}:Job {APP}:Line"}) == ["Job", "Line"]


def test_a_lifecycle_is_found_by_its_table_and_in_any_case(cli: Cli) -> None:
    """`job` and `jobs` both mean the lifecycle Job of the table jobs."""
    for name in ("job", "jobs", "Job"):
        assert cli("diagram", "--app", APP, name).stdout.startswith("Job: jobs.status")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["lifecycles"], "no declarations given"),
        (["lifecycles", "--app", "no_such_module"], "no module 'no_such_module'"),
        (["lifecycles", "--app", "tests.ops.cli.nowhere"], "no module 'tests.ops.cli.nowhere'"),
        (["lifecycles", "--app", f"{APP}:Nothing"], "it has Command, Job"),
        (["lifecycles", "--app", "json"], "expected a Lifecycle class"),
        (["lifecycles", "--app", f"{APP}:Status"], "expected a Lifecycle class"),
        (["lifecycles", "--app", "missing.toml"], "No such file"),
        (["show", "--app", APP, "Nothing", "1"], "there is no lifecycle 'Nothing'"),
        (["show", "--app", APP, "Job", "1"], "no store given"),
        (["explain", "--app", APP, "Job", "1"], "either --to STATUS or --move MOVE"),
        (["explain", "--app", APP, "Job", "1", "--to", "MOON"], "has no status 'MOON'; it has NEW"),
        (["move", "--app", APP, "Job", "fly", "1", "--yes"], "has no move 'fly'; it has start, end"),
        (["move", "--app", APP, "Job", "start", "1", "--set", "x", "--yes"], "COLUMN=VALUE"),
        (["move", "--app", APP, "Job", "start", "1", "--set", "x=1", "--yes"], "does not set x"),
        (["show", "--app", APP, "Line", "7", "--tenant", "acme"], "must have 2 parts, order_id,position"),
        (["sql", "--app", APP, "--dialect", "redis", "--guards"], "Redis has no triggers"),
        (["sql", "--app", APP, "--guards", "--drop-guards"], "goes with neither"),
        (["diagram", "--app", APP, "--format", "svg"], "an svg shows one lifecycle"),
        (["verify", "--app", APP, "--url", "mysql://host/db"], "unknown scheme 'mysql'"),
        (["dance"], "there is no command 'dance'; see `raceproof --help`"),
        (["lifecyles"], "there is no command 'lifecyles'; did you mean lifecycles?"),
    ],
)
def test_a_wrong_call_ends_with_2_and_says_what_to_write(cli: Cli, args: list[str], said: str) -> None:
    """Usage errors come before anything is opened, and name what was wrong and what there is."""
    result = cli(*args)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import no_such_dependency", "no_such_dependency"),
        ("raise SystemExit(3)", "SystemExit"),
        ("from raceproof import Lifecycle\nLifecycle.from_dict({'name': 'X'})", "table is missing"),
    ],
)
def test_a_module_that_does_not_import_is_an_error_without_a_traceback(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    said: str,
) -> None:
    """Whatever a module raises is told in a line, with exit code 1; --debug shows the rest."""
    (tmp_path / "does_not_import.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    result = cli("lifecycles", "--app", "does_not_import")
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_bad_declaration_in_a_file_is_an_error(cli: Cli, tmp_path: Path) -> None:
    """TOML that cannot be read and a declaration that cannot work are told with the file's name."""
    path = tmp_path / "door.toml"
    for text, said in (("name = ", "Invalid value"), (TOML.replace('"CLOSED"]', '"AJAR"]'), "CLOSED")):
        path.write_text(text)
        result = cli("lifecycles", "--app", str(path))
        assert (result.exit_code, "door.toml" in result.stderr, said in result.stderr) == (1, True, True)


def test_two_lifecycles_of_one_name_are_not_guessed_between(cli: Cli, tmp_path: Path) -> None:
    """The same name with another meaning is refused; with the same meaning it is the same lifecycle."""
    path = tmp_path / "job.toml"
    path.write_text(TOML.replace("Door", "Job"))
    assert cli("lifecycles", "--app", str(path), "--app", APP).exit_code == 2
    assert names(cli, "--app", f"{APP}:Job", "--app", f"{APP}:Job") == ["Job"]


def test_the_declaration_is_printed_in_the_form_of_a_file(cli: Cli) -> None:
    """As JSON a lifecycle is what `Spec.to_dict` gives, with its hash."""
    (found,) = json.loads(cli("lifecycles", "--app", f"{APP}:Command", "-o", "json").stdout)
    assert found == {**spec_of(Command).to_dict(), "hash": spec_of(Command).hash}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgresql://ann:s3cret@db.example:5432/shop?sslmode=require",
            "postgresql://ann:***@db.example:5432/shop",
        ),
        ("postgresql+asyncpg://ann:s3cret@db/shop", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:s3cret@one:5432,two:5433/shop", "postgresql://ann:***@one:5432,two:5433/shop"),
        ("redis://:s3cret@cache:6379/0", "redis://:***@cache:6379/0"),
        ("postgresql://db/shop?password=s3cret", "postgresql://db/shop"),
        ("sqlite+aiosqlite:///state.db", "sqlite:///state.db"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    """Password and parameters are left out, a driver's name too, and nothing of it is in the repr."""
    location = parse_location(url)
    assert str(location) == shown
    assert "s3cret" not in repr(location)
    assert location.secrets == ({"s3cret"} if "s3cret" in url else set())


@pytest.mark.parametrize("folder", ["", "sub folder/"])
def test_the_file_of_a_url_is_the_one_that_connect_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Relative and absolute URLs, with percent code, mean the same file here as they do in `connect`."""
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir(exist_ok=True)
    for url in (f"sqlite:///{folder}a%20b.db", f"sqlite:///{tmp_path}/{folder}c.db"):
        path = parse_location(url).path
        assert not path.exists()
        open_sqlite(url, {}).close()
        assert path.is_file()
