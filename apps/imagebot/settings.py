"""Settings, by environment: PORT, DATABASE_URL, TELEGRAM_BOT_TOKEN and so on; `product/truth.yaml` lists them all."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from appkit.settings import HostNames, SecretText
from imagebot.models import Model, catalogue

_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")


class Settings(BaseSettings):
    """What an operator can set. Without tokens there are simulators instead; without a database, a file in `folder`."""

    model_config = SettingsConfigDict(env_prefix="", extra="ignore", populate_by_name=True, hide_input_in_errors=True)

    port: int = Field(8080, ge=0, le=65535)
    host: str = Field("", description="all addresses if PUBLIC_URL is set, loopback otherwise")
    public_url: str = Field("", description="https://… under which Telegram and KIE reach this application")
    hosts: HostNames = Field((), alias="IMAGEBOT_HOSTS", description="further names under which this is reached")
    database_url: str = Field("", description="postgresql://… or sqlite:///…; a file in the folder if empty")
    direct_database_url: str = Field(
        "",
        description="behind a transaction pooler: the server itself, for the lock that makes failover immediate",
    )
    folder: Path = Field(Path("imagebot-data"), alias="IMAGEBOT_FOLDER")
    instance: str = Field("one", alias="IMAGEBOT_INSTANCE", pattern=r"^[A-Za-z0-9_-]{1,40}$")

    telegram_bot_token: SecretText | None = None
    telegram_api: str = "https://api.telegram.org"
    webhook_secret: SecretText | None = Field(None, description="in the webhook's path and header; A-Z a-z 0-9 _ -")
    kie_api_key: SecretText | None = None
    kie_api: str = "https://api.kie.ai"
    kie_webhook_key: SecretText | None = Field(None, description="signs the callbacks of KIE")
    admin_ids: Annotated[tuple[int, ...], NoDecode] = ()

    models: dict[str, int] = Field({"z-image": 500}, description="model to price, in hundredths of the currency")
    models_file: Path | None = Field(None, description="more models, in the form of product/models.yaml")
    currency: str = Field("RUB", pattern=r"^[A-Z]{3}$")
    welcome: int = Field(0, ge=0, description="what a new user gets, in hundredths")
    uncertain_delivery: Literal["hold", "resend"] = Field(
        "hold", description="a send whose outcome is unknown: ask first, or send again"
    )

    delivery_stale: float = Field(300.0, gt=0, description="seconds until a sender counts as gone")
    creation_stale: float = Field(120.0, gt=0, description="seconds until who creates a task counts as gone")
    lock_seconds: float = Field(0.0, ge=0, description="0: 300 with a session lock of PostgreSQL, 15 without one")
    heartbeat: float = Field(30.0, gt=0, description="seconds between two rows in lock_heartbeat")
    takeover: float = Field(1.0, gt=0, description="seconds between two questions of a PASSIVE instance")
    generation_limit: float = Field(900.0, gt=0, description="seconds until KIE counts as never answering")
    delivery_limit: float = Field(
        3600.0, gt=0, description="seconds until a picture that cannot be sent is given up and refunded"
    )
    uncertain_limit: float = Field(
        86400.0,
        gt=0,
        description="seconds until an uncertain delivery is refunded; a reminder comes after half",
    )
    poll: float = Field(2.5, gt=0, description="seconds between the first looks at a task")
    send_timeout: float = Field(30.0, gt=0)
    kie_timeout: float = Field(30.0, gt=0)
    kie_queries: float = Field(10.0, gt=0, description="recordInfo a second, at most")
    kie_creations: float = Field(2.0, gt=0, description="createTask a second, at most")
    drain: float = Field(20.0, gt=0, description="seconds that running work has after SIGTERM")

    reuse_port: bool = Field(False, description="several instances of this machine may share PORT")
    simulated: bool = Field(False, alias="IMAGEBOT_SIMULATED", description="results may come from loopback")

    @field_validator("admin_ids", mode="before")
    @classmethod
    def _listed(cls, told: object) -> object:
        if not isinstance(told, str):
            return told
        listed = [one for one in told.replace(" ", "").split(",") if one]
        if not all(one.isascii() and one.isdigit() and len(one) < 17 for one in listed):
            raise ValueError("numbers of Telegram users, with commas between them")
        return tuple(map(int, listed))

    @model_validator(mode="after")
    def _checked(self) -> "Settings":
        if self.webhook_secret and not _SECRET.fullmatch(self.webhook_secret.get_secret_value()):
            raise ValueError("WEBHOOK_SECRET has 16 to 256 characters of A-Z a-z 0-9 _ -")
        if self.database_url and not self.database_url.startswith(("postgresql://", "postgres://", "sqlite:///")):
            raise ValueError("DATABASE_URL must begin with postgresql:// or sqlite:///")
        if not self.models or min(self.models.values()) <= 0:
            raise ValueError('MODELS is {"model": price} with prices above zero, in hundredths')
        if unknown := sorted(set(self.models) - set(catalogue(self.models_file))):
            raise ValueError(f"MODELS: {', '.join(unknown)} is neither in product/models.yaml nor in MODELS_FILE")
        return self

    def must_be_complete(self) -> None:
        """Refuse to start with a missing secret: an open door is worse than a closed shop."""
        needed = {
            "TELEGRAM_BOT_TOKEN": self.telegram_bot_token,
            "WEBHOOK_SECRET": self.webhook_secret,
            "KIE_API_KEY": self.kie_api_key,
            "KIE_WEBHOOK_KEY": self.kie_webhook_key,
            "PUBLIC_URL": self.public_url,
        }
        missing = [name for name, value in needed.items() if not value]
        if missing:
            raise ValueError(f"set {', '.join(missing)}; or try it without any: imagebot serve --simulate")
        if not self.simulated and not self.public_url.startswith("https://"):
            raise ValueError("PUBLIC_URL must be https://…: Telegram accepts nothing else")

    @property
    def listens_on(self) -> str:
        return self.host or ("0.0.0.0" if self.public_url and not self.simulated else "127.0.0.1")

    @property
    def database(self) -> str:
        if self.database_url:
            return self.database_url
        self.folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{self.folder.resolve() / 'imagebot.db'}"

    def lease(self, session_lock: bool) -> float:
        """Seconds until a silent holder is replaced; without a session lock nothing tells earlier that it has died."""
        return self.lock_seconds or (300.0 if session_lock else 15.0)

    def model(self, name: str) -> Model | None:
        """What is known of a model; None if it has left the catalogue since it was ordered."""
        return catalogue(self.models_file).get(name)

    def price(self, hundredths: int) -> str:
        """Money for people."""
        sign = {"RUB": " ₽", "USD": " $", "EUR": " €"}.get(self.currency, f" {self.currency}")
        whole, part = divmod(abs(hundredths), 100)
        return f"{'-' if hundredths < 0 else ''}{whole}{f'.{part:02}' if part else ''}{sign}"


def revealed(secret: SecretStr | None) -> str:
    """A secret that must be there."""
    if secret is None:
        raise ValueError("a secret is missing")
    return secret.get_secret_value()
