"""The wheel stands alone: no dependency, all its files, and a missing extra is named."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has nothing but the wheel."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return folder / "bin" / "python"


def run(python: Path, code: str) -> str:
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_wheel_wants_nothing_that_is_not_an_extra(wheel: Path) -> None:
    """Core: no dependencies."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    wanted = [line for line in lines if line.startswith("Requires-Dist:")]
    assert wanted
    assert all("extra ==" in line for line in wanted)


def test_the_wheel_has_its_texts_and_its_types(wheel: Path) -> None:
    """SQL and Lua beside the programs, and py.typed."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for file in (
        "py.typed",
        "moves/postgres.sql",
        "moves/sqlite.sql",
        "moves/redis.lua",
        "schema/guards_postgres.sql",
    ):
        assert f"raceproof/{file}" in names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "tools/"))]


def test_it_imports_and_moves_a_row_without_any_dependency(python: Path, tmp_path: Path) -> None:
    """The embedded store needs the standard library alone."""
    code = f"""
import sqlite3
from raceproof import Lifecycle, connect
moves = {{"go": {{"from": "A", "to": "B"}}}}
spec = Lifecycle.from_dict({{"name": "L", "table": "t", "statuses": ["A", "B"], "moves": moves}})
own = sqlite3.connect({str(tmp_path / "x.db")!r}, isolation_level=None)
own.execute("CREATE TABLE t (id TEXT PRIMARY KEY, status TEXT)")
own.execute("INSERT INTO t VALUES ('a', 'A')")
with connect("sqlite:///{tmp_path}/x.db") as db:
    print(db.move(spec.moves["go"], "a"))
"""
    assert run(python, code) == "L.go moved 'a' from A to B\n"


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import raceproof; raceproof.connect('postgresql://x').open()", "postgres"),
        ("import raceproof; raceproof.connect('redis://x').open()", "redis"),
        (
            "import asyncio, raceproof; asyncio.run(raceproof.connect('postgresql://x').aopen())",
            "postgres",
        ),
        (
            "import asyncio, raceproof; asyncio.run(raceproof.connect('redis://x').aopen())",
            "redis",
        ),
        ("from raceproof.ops.metrics import count_decisions; count_decisions()", "metrics"),
        ("from raceproof.ops.tracing import trace_decisions; trace_decisions()", "otel"),
        ("import raceproof.testing; import raceproof.testing.contract", "testing"),
    ],
    ids=["psycopg", "redis", "asyncpg", "redis async", "metrics", "otel", "testing"],
)
def test_a_missing_extra_is_named(python: Path, code: str, extra: str) -> None:
    """With a command that installs it today."""
    assert f"install the extra '{extra}' of raceproof, with pip install '.[{extra}]' in a" in run(python, code)
