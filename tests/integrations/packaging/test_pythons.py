"""The Pythons that the classifiers list are those that `make test-pythons` looks for."""

import sys
from pathlib import Path

import pytest

from tools.test_pythons import installed, supported


def test_the_classifiers_list_every_supported_python() -> None:
    assert supported() == ["3.11", "3.12", "3.13"]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in supported()


def test_interpreters_are_found_in_pyenv_and_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each full version once, and a shim that cannot run is left out."""
    for version, answer in {"3.12.1": "3.12.1", "3.12.9": "3.12.9", "3.11.7": "3.11.7"}.items():
        python = tmp_path / "pyenv" / "versions" / version / "bin" / f"python{version.rpartition('.')[0]}"
        script(python, f"echo {answer}")
    script(tmp_path / "bin" / "python3.12", "echo 3.12.9")
    script(tmp_path / "bin" / "python3.13", "exit 127")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert list(installed("3.12", tmp_path / "pyenv")) == ["3.12.1", "3.12.9"]
    assert list(installed("3.11", tmp_path / "pyenv")) == ["3.11.7"]
    assert installed("3.13", tmp_path / "pyenv") == {}


def script(path: Path, command: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
