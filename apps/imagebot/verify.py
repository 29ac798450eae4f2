"""The architecture gate: the code against product/truth.yaml. It needs no database and no network."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from imagebot.verify_code import entry_points, forbidden, modules

HERE = Path(__file__).parent
TRUTH = HERE / "product" / "truth.yaml"

Finding = dict[str, str]


def findings() -> list[Finding]:
    """Every check with its result."""
    truth: dict[str, Any] = yaml.safe_load(TRUTH.read_text())
    checks = (
        ("entrypoint", entry_points(modules(HERE), truth["entrypoint"])),
        ("routes", _routes(truth)),
        ("allow-list", _allow_list(truth)),
        ("queue", _queue(truth)),
        ("lock", _lock(truth)),
        ("delivery", _delivery(truth)),
        ("environment", _environment(truth)),
        ("migrations", _migrations(truth)),
        ("tables", _tables(truth)),
        ("forbidden patterns", forbidden(modules(HERE))),
    )
    found = []
    for name, problems in checks:
        told = list(problems)
        found += [{"check": name, "result": "problem", "evidence": one} for one in told]
        if not told:
            found.append({"check": name, "result": "ok", "evidence": ""})
    return found


def _routes(truth: Any) -> Iterator[str]:
    from imagebot.main_render import Application

    app = Application(_settings()).routed()
    found = {
        f"{route.method} {route.resource.canonical}" for route in app.router.routes() if route.resource is not None
    }
    yield from _compared("route", {one for one in found if not one.startswith("HEAD")}, set(truth["routes"]))


def _allow_list(truth: Any) -> Iterator[str]:
    from imagebot.handlers.menu import BUTTONS, COMMANDS

    allowed = truth["modes"]["allow_list"]
    yield from _compared("command", set(COMMANDS), set(allowed["commands"]))
    yield from _compared("button", set(BUTTONS), set(allowed["buttons"]))


def _queue(truth: Any) -> Iterator[str]:
    from imagebot.main_render import Application
    from imagebot.update_queue import CAPACITY, WORKERS

    if (truth["queue"]["capacity"], truth["queue"]["workers"]) != (CAPACITY, WORKERS):
        yield f"capacity {CAPACITY} and {WORKERS} workers"
    told = Application(_settings())._queue()
    yield from (f"{name} is not told" for name in truth["queue"]["metrics"] if name not in told)


def _lock(truth: Any) -> Iterator[str]:
    settings = _settings(database_url="postgresql://somewhere/imagebot")
    if settings.heartbeat != truth["lock"]["heartbeat_seconds"]:
        yield f"a heartbeat every {settings.heartbeat} s"
    if settings.lease(session_lock=True) != truth["lock"]["takeover_seconds"]:
        yield f"a takeover after {settings.lease(session_lock=True)} s"


def _delivery(truth: Any) -> Iterator[str]:
    from imagebot import delivery
    from imagebot.lifecycle import picture_of
    from imagebot.storage import Storage

    if picture_of(_settings()).stale != truth["delivery"]["stale_seconds"]:
        yield "the lock is stale after another time"
    source = inspect.getsource(delivery)
    for tag in truth["delivery"]["log_tags"]:
        if not any(part in source for part in (f"[{tag}]", f"[%s_{tag.partition('_')[2]}]")):
            yield f"nobody logs [{tag}]"
    yield from (f"{name} is missing" for name in truth["delivery"]["functions"] if not hasattr(Storage, name))


def _environment(truth: Any) -> Iterator[str]:
    from imagebot.settings import Settings

    known = {(field.alias or name).upper() for name, field in Settings.model_fields.items()}
    told = {*truth["env"]["required_live"], *truth["env"]["optional"]}
    yield from _compared("setting", known, told)
    for name in truth["env"]["required_live"]:
        try:
            _settings(**{name.lower(): None if name != "PUBLIC_URL" else ""}).must_be_complete()
            yield f"it would start without {name}"
        except ValueError:
            pass


def _migrations(truth: Any) -> Iterator[str]:
    found = {path.name for path in (HERE / "migrations").glob("*.sql")}
    yield from _compared("migration", found, set(truth["database"]["migrations"]))


def _tables(truth: Any) -> Iterator[str]:
    from imagebot.tables import own_tables

    made = "".join(path.read_text() for path in (HERE / "migrations").glob("*.sql")) + "".join(own_tables("postgres"))
    for name in truth["database"]["tables"]:
        if f"CREATE TABLE {name} " not in made and f'CREATE TABLE IF NOT EXISTS "{name}"' not in made:
            yield f"nobody makes the table {name}"


def _compared(what: str, found: set[str], told: set[str]) -> Iterator[str]:
    yield from (f"{what} {one} is not in truth.yaml" for one in sorted(found - told))
    yield from (f"{what} {one} of truth.yaml does not exist" for one in sorted(told - found))


def _settings(**changed: Any) -> Any:
    """Settings with nothing from this machine's environment in them."""
    from imagebot.settings import Settings

    complete = {
        "telegram_bot_token": SecretStr("1:token"),
        "webhook_secret": SecretStr("a-secret-of-the-webhook"),
        "kie_api_key": SecretStr("key"),
        "kie_webhook_key": SecretStr("a-key-of-the-callbacks"),
        "public_url": "https://bot.example",
        "database_url": "sqlite:///nowhere.db",
    }
    return Settings.model_construct(**{**complete, **changed})
