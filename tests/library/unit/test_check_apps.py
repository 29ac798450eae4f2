"""Applications may import what is public, and are told what is not."""

from pathlib import Path

import pytest

from tools.check_apps import problems


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A raceproof with one public name."""
    package = tmp_path / "src" / "raceproof"
    (package / "testing").mkdir(parents=True)
    (package / "__init__.py").write_text('__all__ = ["bind"]')
    (package / "testing" / "__init__.py").write_text('__all__ = ["valkey"]')
    return package.parent


@pytest.mark.parametrize(
    "line",
    [
        "import raceproof",
        "import raceproof.testing",
        "from raceproof import bind",
        "from raceproof import testing",
        "from raceproof.testing import valkey",
        "from . import raceproof",
        "import asyncpg, raceproofing",
    ],
)
def test_public_names_are_fine(line: str, source: Path, tmp_path: Path) -> None:
    """So is everything that is not ours."""
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "app.py").write_text(line)
    assert not list(problems(tmp_path / "apps", source))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import raceproof.drivers", "raceproof.drivers"),
        ("import asyncpg, raceproof.drivers.redis as redis", "raceproof.drivers.redis"),
        ("from raceproof import bind, secret", "raceproof.secret"),
        ("from raceproof.drivers import redis", "raceproof.drivers.redis"),
        ("def later():\n  from raceproof.testing.wire import Wire", "raceproof.testing.wire.Wire"),
    ],
)
def test_anything_else_is_named_with_its_place(line: str, name: str, source: Path, tmp_path: Path) -> None:
    """File, line, and what to import instead."""
    (tmp_path / "apps" / "shop").mkdir(parents=True)
    (tmp_path / "apps" / "shop" / "app.py").write_text(line)
    (problem,) = problems(tmp_path / "apps", source)
    assert f"app.py:{1 + line.count(chr(10))}: {name} is not public" in problem


def test_without_apps_there_is_no_problem(source: Path, tmp_path: Path) -> None:
    """The folder may not be there yet."""
    assert not list(problems(tmp_path / "apps", source))
