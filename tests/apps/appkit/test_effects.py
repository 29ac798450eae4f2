"""No setting is without effect: each is read somewhere outside of the settings themselves."""

import ast
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from devices.settings import Settings as Devices
from imagebot.settings import Settings as Imagebot
from outreach.settings import Settings as Outreach
from qrlogin.settings import Settings as Qrlogin

APPS: dict[str, type[BaseSettings]] = {
    "devices": Devices,
    "imagebot": Imagebot,
    "outreach": Outreach,
    "qrlogin": Qrlogin,
}
ROOT = Path(__file__).parents[3] / "apps"


def attributes(node: ast.AST) -> set[str]:
    return {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def effective(app: str) -> set[str]:
    """What is read elsewhere, and what properties and methods read that are used elsewhere."""
    source = ROOT / app / "settings.py"
    read: set[str] = set()
    for path in (ROOT / app).rglob("*.py"):
        if path != source:
            read |= attributes(ast.parse(path.read_text()))
    (settings,) = (
        one for one in ast.parse(source.read_text()).body if isinstance(one, ast.ClassDef) and one.name == "Settings"
    )
    methods = {one.name: attributes(one) for one in settings.body if isinstance(one, ast.FunctionDef)}
    for _ in methods:
        for name, inside in methods.items():
            if name in read:
                read |= inside
    return read


@pytest.mark.parametrize("app", APPS)
def test_every_setting_is_read_by_the_application(app: str) -> None:
    """One that only the settings know looks as if it did something."""
    assert set(APPS[app].model_fields) - effective(app) == set()


@pytest.mark.parametrize("app", APPS)
def test_each_worker_and_each_drain_uses_the_setting(app: str) -> None:
    """DRAIN did nothing while the library's own 30 seconds ruled."""
    for path in (ROOT / app).rglob("*.py"):
        if path.name in ("speed.py", "storm.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                given = {one.arg: one.value for one in node.keywords}
                if called == "Worker":
                    assert "drain" in given, f"{path}:{node.lineno}: a worker without drain="
                if called == "drain" and "seconds" in given:
                    assert "drain" in attributes(given["seconds"]), f"{path}:{node.lineno}"
