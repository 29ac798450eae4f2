"""Settings, by environment: OUTREACH_DATABASE, OUTREACH_FORM and so on."""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from appkit.settings import HostNames, SecretText
from outreach.forms import Claiming, Form
from outreach.lifecycle import BATCH, LEASE, STALE
from outreach.stages import STAGES

LOOPBACK = ("127.0.0.1", "::1")


class Settings(BaseSettings):
    """What an operator can set. Without any, everything runs on this machine, in `folder`."""

    model_config = SettingsConfigDict(env_prefix="OUTREACH_", hide_input_in_errors=True)

    folder: Path = Field(Path("outreach-data"), description="where the embedded database is kept")
    database: str = Field("", description="postgresql://… or sqlite:///…; a file in the folder if empty")
    form: Form = Field(Form.COLUMNS, description="where claims live: `columns`, or `marker` in error columns")
    host: str = "127.0.0.1"
    port: int = 8090
    hosts: HostNames = Field(
        (), description="names under which this is reached, beside localhost and addresses"
    )
    token: SecretText | None = Field(
        None, description="asked for by API and page; needed on any address but loopback"
    )
    instance: str = Field("one", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="the name of this instance")

    rhythm: Literal["note", "continuous"] = Field(
        "note", description="`note`: by the note's schedule; `continuous`: whenever there is work"
    )
    limits: dict[str, int] = Field({}, description='workers of a stage over all processes: {"vetting": 2}')
    slot: float = Field(30.0, gt=0, description="seconds after which a dead worker's slot is free")
    poll: float = Field(1.0, gt=0, description="seconds between two looks for work")
    drain: float = Field(30.0, gt=0, description="seconds that running work has after SIGTERM")
    batch: int = Field(BATCH, ge=1, le=1000, description="rows that are acquired together")
    batch_timeout: float = Field(45 * 60.0, gt=0, description="seconds for all that was acquired together")
    item_timeout: float = Field(120.0, gt=0, description="seconds for one row")
    stale: float = Field(STALE, gt=0, description="seconds after which a marker counts as left behind")
    lease: float = Field(
        LEASE, gt=0, description="seconds of a claim in columns, renewed while it is worked on"
    )
    rest: float = Field(30.0, ge=0, description="seconds that a row rests after its first failure")

    ai_url: str = Field("", description="an OpenAI-compatible API, https://…/v1; built in if empty")
    ai_key: SecretText | None = None
    ai_model: str = "gpt-4o-mini"
    ai_calls: int = Field(3, ge=1, description="calls at once in this process")
    ai_rate: float = Field(5.0, gt=0, description="calls a second in this process, at most")
    ai_timeout: float = Field(60.0, gt=0, description="seconds for one call")
    ai_budget: float = Field(10.0, ge=0, description="what all calls together may cost")
    ai_price_in: float = Field(0.15, ge=0, description="of a million tokens that are sent")
    ai_price_out: float = Field(0.60, ge=0, description="of a million tokens that come back")

    feed_timeout: float = Field(20.0, gt=0, description="seconds for one feed")
    feed_bytes: int = Field(5_000_000, gt=0, description="the largest feed that is read")

    @model_validator(mode="after")
    def _checked(self) -> "Settings":
        if self.host not in LOOPBACK and self.token is None:
            raise ValueError(f"OUTREACH_HOST={self.host} can be reached by others: set OUTREACH_TOKEN too")
        if unknown := set(self.limits) - set(STAGES):
            raise ValueError(f"limits: no stage {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
        if any(limit < 1 for limit in self.limits.values()):
            raise ValueError("limits: a stage that nobody may work on is paused, not limited to 0")
        if self.form is Form.MARKER and self.longest_hold > self.stale / 3:
            # a renewal changes a marker, and with it the fence that the work under way has in its hand
            raise ValueError(
                f"stale={self.stale:g} is too short: a row may be held for {self.longest_hold:g} s,"
                " and a marker must live three times as long"
            )
        if self.ai_url:
            self._check_ai()
        return self

    def _check_ai(self) -> None:
        parts = urlsplit(self.ai_url)
        local = parts.scheme == "http" and parts.hostname in LOOPBACK
        if parts.username or not (local or (parts.scheme == "https" and parts.hostname)):
            raise ValueError("OUTREACH_AI_URL is https://host/…, or http:// on this machine")
        if self.ai_key is None:
            raise ValueError("OUTREACH_AI_URL needs OUTREACH_AI_KEY")

    @property
    def longest_hold(self) -> float:
        """Seconds for which a row may be held in a marker: its own time, and that of the rows before it in its batch."""
        fewest = min(stage.parallel for stage in STAGES.values())
        return min(self.batch_timeout, self.item_timeout * -(-self.batch // fewest))

    @property
    def database_url(self) -> str:
        if self.database:
            return self.database
        self.folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{self.folder.resolve() / 'outreach.db'}"

    def claiming(self, dialect: str) -> Claiming:
        return Claiming(self.form, dialect, self.stale, self.lease, self.rest)

    def at_once(self, stage: str) -> int:
        """Workers of a stage at once, over all processes."""
        return self.limits.get(stage, STAGES[stage].at_once)
