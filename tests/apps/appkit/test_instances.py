"""Two processes of one folder never have the same name: they are told apart, or the second is refused."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HOLDS = """
import sys, time
from pydantic_settings import BaseSettings, SettingsConfigDict
from appkit.instances import named
class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TOY_")
    folder: str = sys.argv[1]
    instance: str = "one"
print(named(Settings(), "serve").instance, flush=True)
time.sleep(600)
"""
APPS = ("devices", "imagebot", "outreach", "qrlogin")


def start(folder: Path, name: str | None = None) -> "subprocess.Popen[str]":
    environment = dict(os.environ) if name is None else {**os.environ, "TOY_INSTANCE": name}
    command = [sys.executable, "-c", HOLDS, str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(*processes: "subprocess.Popen[str]") -> None:
    for one in processes:
        one.send_signal(signal.SIGKILL)
        one.communicate()


def test_processes_without_a_name_get_different_ones_which_return_after_a_kill(tmp_path: Path) -> None:
    """By the machine and a number: a broker's session finds its owner after a restart."""
    first, second = start(tmp_path), start(tmp_path)
    names = {said(first), said(second)}
    assert len(names) == 2
    assert all(name.rpartition("-")[2] in ("1", "2") for name in names)
    assert all(name.startswith(socket.gethostname()[:2]) for name in names)
    end(first, second)
    third = start(tmp_path)
    assert said(third) in names
    end(third)


def test_a_name_that_is_taken_is_refused_with_the_setting_to_change(tmp_path: Path) -> None:
    """And is free when its process has ended, however it ended."""
    first = start(tmp_path, "alpha")
    assert said(first) == "alpha"
    second = start(tmp_path, "alpha")
    _, words = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "another process runs as 'alpha'" in words
    assert "TOY_INSTANCE" in words
    end(first)
    third = start(tmp_path, "alpha")
    assert said(third) == "alpha"
    end(third)


@pytest.mark.parametrize("app", APPS)
def test_every_application_names_its_processes(app: str) -> None:
    """Each command that stays asks for its name."""
    root = Path(__file__).parents[3] / "apps" / app
    assert any("= named(" in path.read_text() or "(named(" in path.read_text() for path in root.glob("*.py"))
