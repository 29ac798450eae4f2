"""Settings, by environment: DEVICES_DATABASE, DEVICES_BROKER and so on."""

import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from appkit.settings import HostNames, SecretText
from raceproof.webhooks import Secret

LOOPBACK = ("127.0.0.1", "::1")
EMBEDDED = "embedded"


class Settings(BaseSettings):
    """What an operator can set. Without any, everything runs on this machine, in `folder`."""

    model_config = SettingsConfigDict(env_prefix="DEVICES_", hide_input_in_errors=True)

    folder: Path = Field(Path("devices-data"), description="where the embedded database and the secret are kept")
    database: str = Field("", description="postgresql://… or sqlite:///…; a file in the folder if empty")
    broker: str = Field(EMBEDDED, description="mqtt://[user:password@]host:port, or `embedded` to start one here")
    prefix: str = Field("hydro", description="the first part of every topic")
    secret: SecretText | None = Field(None, description="signs commands to nodes that have no secret of their own")
    node_secrets: dict[str, SecretText] = Field({}, description='{"gh/zone/node": "secret"} as JSON')
    host: str = "127.0.0.1"
    port: int = 8080
    hosts: HostNames = Field((), description="names under which this is reached, beside localhost and addresses")
    token: SecretText | None = Field(None, description="asked for by API and page; needed on any address but loopback")
    instance: str = Field("one", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="the name of this instance")
    drain: float = Field(10.0, gt=0, description="seconds that running work has after SIGTERM")
    puback: float = Field(5.0, gt=0, description="seconds to wait for the broker")
    parallel: int = Field(100, gt=0, description="publishes under way at once")
    answer: float = Field(300.0, gt=0, description="seconds for a node to answer, before TIMEOUT")
    valid: float = Field(300.0, gt=0, description="seconds for which a command may be published, unless it says so")
    memory: float = Field(300.0, gt=0, description="seconds for which a node remembers what it has executed")
    hold: float = Field(
        86_400.0, gt=0, description="seconds for which a command that may have arrived waits for a person"
    )
    silence: float = Field(90.0, gt=0, description="seconds without a heartbeat after which a node is offline")

    @model_validator(mode="after")
    def _checked(self) -> "Settings":
        if self.host not in LOOPBACK and self.token is None:
            raise ValueError(f"DEVICES_HOST={self.host} can be reached by others: set DEVICES_TOKEN too")
        if self.broker != EMBEDDED and self.secret is None and not self.node_secrets:
            raise ValueError("commands are signed: set DEVICES_SECRET (or DEVICES_NODE_SECRETS) for this broker")
        return self

    @property
    def database_url(self) -> str:
        if self.database:
            return self.database
        self.folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{self.folder.resolve() / 'devices.db'}"

    def secret_of(self, node: str) -> Secret:
        """The key of one node; on an embedded broker one is made, and kept in the folder for the simulator."""
        own = self.node_secrets.get(node) or self.secret
        return Secret(own.get_secret_value()) if own else self._local_secret()

    def _local_secret(self) -> Secret:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "secret"
        if not path.exists():
            aside = path.with_name(f"secret-{secrets.token_hex(4)}")
            aside.touch(mode=0o600)
            aside.write_text(secrets.token_hex(24))
            try:
                os.link(aside, path)  # of two that start together one wins
            except FileExistsError:
                pass
            finally:
                aside.unlink()
        return Secret(path.read_text())


def broker_options(url: str) -> dict[str, Any]:
    """Host, port and login for aiomqtt."""
    parts = urlsplit(url)
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise ValueError("the broker is mqtt://[user:password@]host:port")
    options: dict[str, Any] = {
        "hostname": parts.hostname,
        "port": parts.port or (8883 if parts.scheme == "mqtts" else 1883),
    }
    if parts.scheme == "mqtts":
        import ssl

        options["tls_context"] = ssl.create_default_context()
    if parts.username:
        options |= {"username": parts.username, "password": parts.password}
    return options
