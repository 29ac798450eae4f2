"""A secret that is set is a secret: blank and short ones stop every application before it listens."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

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
SECRETS = {
    "devices": {"DEVICES_SECRET", "DEVICES_NODE_SECRETS", "DEVICES_TOKEN"},
    "imagebot": {"TELEGRAM_BOT_TOKEN", "WEBHOOK_SECRET", "KIE_API_KEY", "KIE_WEBHOOK_KEY"},
    "outreach": {"OUTREACH_TOKEN", "OUTREACH_AI_KEY"},
    "qrlogin": {
        "QRLOGIN_KEYS",
        "QRLOGIN_SIGNING",
        "QRLOGIN_API_HASH",
        "QRLOGIN_TOKEN",
        "QRLOGIN_BOT_TOKEN",
    },
}
"""Written by hand: what an operator sets and nobody else may know."""


def secret_settings(kind: type[BaseSettings]) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        if "SecretStr" in repr(field.annotation) or "SecretStr" in repr(field.metadata):
            yield field.alias or f"{kind.model_config['env_prefix']}{name}".upper()


@pytest.mark.parametrize("app", APPS)
def test_the_list_of_secrets_is_complete(app: str) -> None:
    """A new secret has to be added to it, and so to the tests below."""
    assert set(secret_settings(APPS[app])) >= SECRETS[app]
    assert set(secret_settings(APPS[app])) == SECRETS[app], "add new secrets to SECRETS"


@pytest.mark.parametrize(("app", "name"), [(app, name) for app in APPS for name in sorted(SECRETS[app])])
@pytest.mark.parametrize("value", ["", " ", "\t \n", " " * 40, "tiny", "  fifteen-chars  "])
def test_blank_and_short_secrets_are_refused(app: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a message that says what to set, how to make one, and nothing of the value."""
    monkeypatch.setenv(name, f'{{"a/b/c": "{value.strip()}"}}' if name == "DEVICES_NODE_SECRETS" else value)
    with pytest.raises(ValueError, match=r"is blank: unset it|is too short: use 16") as refused:
        APPS[app]()
    assert "secrets.token_urlsafe" in str(refused.value)
    if value.strip():
        assert value.strip() not in str(refused.value)


@pytest.mark.parametrize("value", [",", "a secret of some length,", "a secret of some length, ,short"])
def test_each_secret_of_a_list_is_looked_at(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comma too many must not become an empty key."""
    monkeypatch.setenv("QRLOGIN_SIGNING", value)
    with pytest.raises(ValueError, match=r"is blank|is too short"):
        Qrlogin()


@pytest.mark.parametrize(
    ("app", "environment"),
    [
        ("devices", {"DEVICES_HOST": "127.0.0.2", "DEVICES_TOKEN": ""}),
        ("outreach", {"OUTREACH_HOST": "127.0.0.2", "OUTREACH_TOKEN": " "}),
        ("qrlogin", {"QRLOGIN_HOST": "127.0.0.2", "QRLOGIN_TOKEN": ""}),
        ("qrlogin", {"QRLOGIN_HOST": "127.0.0.2", "QRLOGIN_BOT_TOKEN": ""}),
        ("imagebot", {"PUBLIC_URL": "https://bot.example.com", "WEBHOOK_SECRET": ""}),
    ],
)
def test_no_application_starts_with_a_blank_secret(app: str, environment: dict[str, str], tmp_path: Any) -> None:
    """One line for each wrong setting and exit code 2: as when a variable of a deploy was never filled in."""
    command = [sys.executable, "-m", app, "serve"]
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    (secret,) = [
        name for name in environment if name not in ("DEVICES_HOST", "OUTREACH_HOST", "QRLOGIN_HOST", "PUBLIC_URL")
    ]
    assert done.returncode == 2, done.stderr
    assert any(line.startswith(f"{secret}: is blank") for line in done.stderr.splitlines()), done.stderr
    assert "Traceback" not in done.stderr


def test_a_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the settings nor by their errors."""
    monkeypatch.setenv("DEVICES_TOKEN", "canary-canary-canary")
    monkeypatch.setenv("DEVICES_PORT", "canary-port")
    with pytest.raises(ValueError, match="port") as refused:
        Devices()
    assert "canary" not in str(refused.value)
    assert "canary-canary" not in repr(Devices(port=1))


@pytest.mark.parametrize("app", APPS)
def test_names_of_hosts_are_names(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scheme, port or wildcard."""
    name = f"{app.upper()}_HOSTS"
    monkeypatch.setenv(name, "app.example.com, other.example.com")
    assert APPS[app]().hosts == ("app.example.com", "other.example.com")  # type: ignore[attr-defined]
    for wrong in ("https://app.example.com", "app.example.com:80", "*"):
        monkeypatch.setenv(name, wrong)
        with pytest.raises(ValueError, match="is not the name of a host"):
            APPS[app]()
