"""`--app` of a Django project: its models cannot be imported before `django.setup()`."""

from pathlib import Path

import pytest

from raceproof.ops.cli.django_project import settings_of
from tests.ops.cli.conftest import Process

SETTINGS = """
SECRET_KEY = "for a test"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
"""
MODELS = """
from django.db import models

class Order(models.Model):
    status = models.CharField(max_length=20)
"""
FLOW = """
from enum import StrEnum
from raceproof import Lifecycle, move
from shop.models import Order

class Status(StrEnum):
    NEW = "new"
    PAID = "paid"

class OrderFlow(Lifecycle[Status], table=Order._meta.db_table):
    pay = move(Status.NEW, to=Status.PAID)
"""
MANAGE = """
import os, sys

def main():
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    from django.core.management import execute_from_command_line
    execute_from_command_line(sys.argv)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project as `django-admin startproject` lays it out, without its manage.py."""
    (tmp_path / "shop").mkdir()
    for name, text in {"__init__": "", "settings": SETTINGS, "models": MODELS, "flow": FLOW}.items():
        (tmp_path / "shop" / f"{name}.py").write_text(text)
    return tmp_path


def test_the_settings_of_the_environment_are_used(process: Process, project: Path) -> None:
    """As every tool of Django's world reads them."""
    env = {"DJANGO_SETTINGS_MODULE": "shop.settings"}
    done = process("sql", "--app", "shop.flow", "--dialect", "sqlite", "--guards", cwd=project, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CREATE TRIGGER" in done.stdout
    assert "shop_order" in done.stdout


def test_else_those_that_manage_py_names_are_used(process: Process, project: Path) -> None:
    """Where the command is run in the folder of the project."""
    (project / "manage.py").write_text(MANAGE)
    done = process("lifecycles", "--app", "shop.flow", "-o", "ids", cwd=project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "OrderFlow\n", "")


def test_without_settings_the_error_says_what_to_set(process: Process, project: Path) -> None:
    """And not that a registry is not ready, which is about Django's inside."""
    done = process("lifecycles", "--app", "shop.flow", cwd=project)
    assert done.returncode == 1
    assert "--app shop.flow: it is a part of a Django project whose settings are not known" in done.stderr
    assert "Set DJANGO_SETTINGS_MODULE=project.settings, or run raceproof in the folder" in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("nowhere.settings", "No module named 'nowhere'"),
        ("shop.broken", "ZeroDivisionError: division by zero"),
    ],
)
def test_settings_that_do_not_work_are_named(process: Process, project: Path, settings: str, said: str) -> None:
    """With what they fail with."""
    (project / "shop" / "broken.py").write_text("1 / 0\n")
    done = process("lifecycles", "--app", "shop.flow", cwd=project, env={"DJANGO_SETTINGS_MODULE": settings})
    assert done.returncode == 1
    assert f"Django cannot be set up with DJANGO_SETTINGS_MODULE={settings}" in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_has_nothing_to_do_with_django_is_loaded_without_it(process: Process, project: Path) -> None:
    """A manage.py beside it is not looked at."""
    (project / "manage.py").write_text(MANAGE.replace("shop.settings", "nowhere.settings"))
    done = process("lifecycles", "--app", "declared:Job", "-o", "ids", cwd=project)
    assert (done.returncode, done.stdout) == (0, "Job\n")


@pytest.mark.parametrize("text", ["", "def broken(:", "import os\nos.environ.setdefault('OTHER', 'x')\n"])
def test_a_manage_py_without_settings_tells_none(tmp_path: Path, text: str) -> None:
    """It is read and never run."""
    (tmp_path / "manage.py").write_text(text)
    assert settings_of(tmp_path / "manage.py") is None
    assert settings_of(tmp_path / "nowhere.py") is None
