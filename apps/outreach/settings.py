"""Settings, by environment: OUTREACH_DATABASE, OUTREACH_FORM and so on."""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from appkit.settings import HostNames, SecretText
from outreach.forms import Form
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
    hosts: HostNames = Field((), description="names under which this is reached, beside localhost and addresses")
    token: SecretText | None = Field(None, description="asked for by API and page; needed on any address but loopback")
    instance: str = Field("one", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="the name of this instance")

    rhythm: Literal["clock", "continuous"] = Field(
        "clock", description="`clock`: each stage by its own schedule; `continuous`: whenever there is work"
    )
    limits: dict[str, int] = Field({}, description='workers of a stage over all processes: {"vetting": 2}')
    slot: float = Field(30.0, gt=0, description="seconds after which a dead worker's slot is free")
    poll: float = Field(1.0, gt=0, description="seconds between two looks for work")
    drain: float = Field(
        75.0, gt=0, description="seconds that running work has after SIGTERM; longer than an AI call may take"
    )
    batch: int = Field(BATCH, ge=1, le=1000, description="rows that are acquired together")
    batch_timeout: float = Field(45 * 60.0, gt=0, description="seconds for all that was acquired together")
    item_timeout: float = Field(165.0, gt=0, description="seconds for one row")
    stale: float = Field(
        STALE, gt=0, description="seconds after which a marker counts as left behind; kept in the database"
    )
    lease: float = Field(LEASE, gt=0, description="seconds of a claim in columns, renewed while it is worked on")
    rest: float = Field(30.0, ge=0, description="seconds that a row backs off after its first failure")

    ai_url: str = Field("", description="an OpenAI-compatible API, https://…/v1; built in if empty")
    ai_key: SecretText | None = None
    ai_model: str = "gpt-4o-mini"
    ai_calls: int = Field(3, ge=1, le=100, description="calls at once, over all processes")
    ai_rate: float = Field(5.0, gt=0, description="calls a second, over all processes")
    ai_timeout: float = Field(60.0, gt=0, description="seconds for one call")
    ai_wait: float = Field(30.0, gt=0, description="seconds that a row waits for its turn to call")
    ai_pause: float = Field(
        5.0, gt=0, description="seconds of the first pause when the provider fails; each is twice as long"
    )
    ai_budget: float = Field(10.0, ge=0, description="what all calls together may cost")
    ai_currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="of the budget and the prices")
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
            raise ValueError("limits must be at least 1: to stop a stage, pause it")
        if self.form is Form.MARKER and (why := self.too_short(self.stale)):
            raise ValueError(why)
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
        if self.drain <= self.ai_timeout:
            raise ValueError(
                f"drain={self.drain:g} is shorter than an AI call may take ({self.ai_timeout:g} s):"
                " each deploy would throw away calls that are paid for"
            )
        if self.item_timeout <= self.ai_timeout:
            raise ValueError(
                f"item_timeout={self.item_timeout:g} must be longer than an AI call may take ({self.ai_timeout:g} s)"
            )

    def too_short(self, stale: float) -> str:
        """Why markers cannot have this stale time: a renewal would change the fence that the work under way has."""
        if self.longest_hold <= stale / 3:
            return ""
        return (
            f"stale={stale:g} is too short: a row may be held for {self.longest_hold:g} s,"
            " and a marker must live three times as long"
        )

    @property
    def longest_hold(self) -> float:
        """Seconds for which a row may be held in a marker: its own time, and that of the rows before it in its batch."""
        fewest = min(stage.parallel for stage in STAGES.values())
        return min(self.batch_timeout, self.item_timeout * -(-self.batch // fewest))

    @property
    def database_url(self) -> str:
        if self.database:
            return self.database
        return f"sqlite:///{self.folder.resolve() / 'outreach.db'}"

    @property
    def ai_patience(self) -> float:
        """Seconds that a row waits for its turn; its own time must not end while it waits."""
        return min(self.ai_wait, (self.item_timeout - self.ai_timeout) / 2)

    @property
    def ai_slot(self) -> float:
        """Seconds after which the slot of a dead caller is free: a call that it has made has ended by then."""
        return self.ai_timeout + min(10.0, self.ai_timeout)

    def at_once(self, stage: str) -> int:
        """Workers of a stage at once, over all processes."""
        return self.limits.get(stage, STAGES[stage].at_once)
