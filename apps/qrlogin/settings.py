"""Settings, by environment: QRLOGIN_STORE, QRLOGIN_DATABASE and so on."""

import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from appkit.settings import HostNames, SecretText, SecretTexts
from qrlogin.identity import Signer
from qrlogin.lifecycle import ACTIVE_SECONDS, LEASE
from qrlogin.sealing import Vault, new_key, parsed_keys
from raceproof.webhooks import Secret

LOOPBACK = ("127.0.0.1", "::1")
REDIS = ("redis://", "rediss://", "valkey://", "valkeys://", "unix://", "redis-cluster://")


class Settings(BaseSettings):
    """What an operator can set. Without any, everything runs on this machine, in `folder`, with a simulated Telegram."""

    model_config = SettingsConfigDict(env_prefix="QRLOGIN_", hide_input_in_errors=True)

    folder: Path = Field(Path("qrlogin-data"), description="where the embedded database and the secrets are kept")
    store: str = Field(
        "", description="where attempts live: redis://… or redis-cluster://host:port; the database if empty"
    )
    database: str = Field(
        "",
        description="where sessions are saved: postgresql://… or sqlite:///…; a file in the folder if empty",
    )
    keys: SecretText | None = Field(
        None, description="name=key,name=key: Fernet keys, the newest first; one is made if empty"
    )
    signing: SecretTexts | None = Field(
        None, description="signs the tokens of attempts; secret,secret, the newest first"
    )
    api_id: int | None = Field(None, description="of my.telegram.org; with api_hash, the real Telegram is used")
    api_hash: SecretText | None = None
    simulated: str = Field("", description="host:port of a simulated Telegram that runs elsewhere")
    host: str = "127.0.0.1"
    port: int = 8070
    metrics_port: int = Field(
        8072, ge=0, le=65535, description="where `qrlogin ingest` answers /health and /metrics; 0 for nowhere"
    )
    hosts: HostNames = Field((), description="names under which this is reached, beside localhost and addresses")
    token: SecretText | None = Field(None, description="asked for to start a login; needed on any address but loopback")
    bot_token: SecretText | None = Field(
        None, description="of the bot whose Mini App may start logins of its own users"
    )
    proxies: str = Field(
        "", description="addresses of proxies in front, address,address: their X-Forwarded-For is believed"
    )
    url: str = Field(
        "", pattern=r"^(https?://.+)?$", description="where users find this: https://login.example.com/qr/"
    )
    any_account: bool = Field(
        False, description="let any Telegram account scan; without it, only the account of the user"
    )
    instance: str = Field("one", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="the name of this instance")
    drain: float = Field(5.0, gt=0, description="seconds that running work has after SIGTERM")
    ttl: int = Field(ACTIVE_SECONDS, ge=1, le=ACTIVE_SECONDS, description="seconds for one attempt")
    lease: float = Field(LEASE, ge=0.5, description="seconds after which a silent ingest process is replaced")
    renew_before: float = Field(5.0, gt=0, description="seconds before a code expires at which the next is shown")
    parallel: int = Field(2000, gt=0, description="logins under way at once, in one ingest process")
    password_tries: int = Field(5, gt=0, description="wrong passwords after which a login has failed")
    starts_of_user: int = Field(10, gt=0, description="logins that one user may start in a minute")
    starts_of_address: int = Field(60, gt=0, description="logins that one address may start in a minute")

    @model_validator(mode="after")
    def _checked(self) -> "Settings":
        if self.host not in LOOPBACK and self.token is None and self.bot_token is None:
            raise ValueError(
                f"QRLOGIN_HOST={self.host} can be reached by others: set QRLOGIN_TOKEN or QRLOGIN_BOT_TOKEN too"
            )
        if self.api_id is not None and self.token is None and self.bot_token is None:
            raise ValueError("with the real Telegram, set QRLOGIN_TOKEN or QRLOGIN_BOT_TOKEN: who may start logins?")
        if (self.api_id is None) != (self.api_hash is None):
            raise ValueError("QRLOGIN_API_ID and QRLOGIN_API_HASH belong together")
        if self.api_id is not None and (self.keys is None or self.signing is None):
            raise ValueError("real sessions are credentials: set QRLOGIN_KEYS and QRLOGIN_SIGNING")
        if self.store and not self.store.startswith(REDIS):
            raise ValueError("QRLOGIN_STORE is redis://…, redis-cluster://…, or empty")
        if self.keys is not None:
            parsed_keys(self.keys.get_secret_value())
        return self

    @property
    def database_url(self) -> str:
        if self.database:
            return self.database
        self.folder.mkdir(parents=True, exist_ok=True)
        self.embedded.touch(mode=0o600)  # for us alone; an empty file is an empty database
        return f"sqlite:///{self.embedded.resolve()}"

    @property
    def embedded(self) -> Path:
        """The file of the embedded database."""
        return self.folder / "qrlogin.db"

    @property
    def path(self) -> str:
        """What comes before our own paths in the browser: `/qr` for https://login.example.com/qr/."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def real(self) -> bool:
        """Whether logins go to the real Telegram."""
        return self.api_id is not None

    def vault(self) -> Vault:
        if self.keys is not None:
            return Vault(parsed_keys(self.keys.get_secret_value()))
        return Vault({"local": self._kept("key", new_key())})

    def signer(self) -> Signer:
        return Signer(self._signing() or [self._kept("signing", secrets.token_hex(24))])

    def _signing(self) -> list[Secret]:
        told = self.signing.get_secret_value() if self.signing else ""
        return [Secret(one.strip()) for one in told.split(",") if one.strip()]

    def _kept(self, name: str, fresh: str) -> Secret:
        """A secret in the folder, made by whoever comes first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        if not path.exists():
            aside = path.with_name(f"{name}-{secrets.token_hex(4)}")
            aside.touch(mode=0o600)
            aside.write_text(fresh)
            try:
                os.link(aside, path)  # of two that start together one wins
            except FileExistsError:
                pass
            finally:
                aside.unlink()
        return Secret(path.read_text())
