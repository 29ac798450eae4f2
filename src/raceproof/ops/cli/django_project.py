"""A Django project as `--app`: its registry has to be ready before a module with models can be imported."""

import ast
import importlib.util
import os
from pathlib import Path

from raceproof.ops.cli.exits import Failure

_SETTINGS = "DJANGO_SETTINGS_MODULE"
_DEBUG = "`raceproof --debug …` shows where."


def set_up_django(asked: str) -> None:
    """Run `django.setup()` where the environment names settings; twice does no harm."""
    if os.environ.get(_SETTINGS) and importlib.util.find_spec("django") is not None:
        _set_up(asked)


def set_up_after(error: BaseException, asked: str) -> bool:
    """Whether an import failed for want of a set-up that has now been made, by the settings that manage.py names."""
    if type(error).__name__ not in ("AppRegistryNotReady", "ImproperlyConfigured") or os.environ.get(_SETTINGS):
        return False
    settings = settings_of(Path("manage.py"))
    if settings is None:
        raise Failure(
            f"{asked}: it is a part of a Django project whose settings are not known: {error}",
            advice=f"Set {_SETTINGS}=project.settings, or run raceproof in the folder that has the project's manage.py.",
        ) from error
    os.environ[_SETTINGS] = settings
    _set_up(asked)
    return True


def settings_of(manage: Path) -> str | None:
    """The settings that a manage.py gives to `os.environ.setdefault`, without running it."""
    try:
        tree = ast.parse(manage.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="setdefault"),
                args=[ast.Constant(value="DJANGO_SETTINGS_MODULE"), ast.Constant(value=str(settings))],
            ):
                return settings
    return None


def _set_up(asked: str) -> None:
    import django

    try:
        django.setup()
    except (Exception, SystemExit) as error:
        raise Failure(
            f"{asked}: Django cannot be set up with {_SETTINGS}={os.environ[_SETTINGS]}: {type(error).__name__}: {error}",
            advice=_DEBUG,
        ) from error
