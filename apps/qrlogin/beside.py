"""What lies beside the rows of attempts: where open ones are found, what the page shows, passwords on their way.

None of it decides anything. An attempt that is found must still be claimed; what a holder shows lies under its own fence,
so that one who is late shows nothing to anybody; everything has an end of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from qrlogin.identity import SessionId


@dataclass
class Known:
    """All that a store has about the attempts of a user, for those who look for what is wrong."""

    pointer: str | None = None
    """The id that is marked as active; it may have ended since."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Attempts by their id, the newest first; empty where only the id is left."""
    endless: list[str] = field(default_factory=list)
    """Keys without a time to live."""


class Beside(Protocol):
    """The same on Redis and in a database."""

    async def now(self) -> float:
        """The store's clock, in seconds since 1970."""

    async def check_writes(self, by: str) -> None:
        """Write something, as this instance; raises if the store takes no writes, though it may answer."""

    async def announce(self, session_id: SessionId, delay: float = 0.0) -> None:
        """Let ingest find this attempt, in this many seconds."""

    async def waiting(self, limit: int) -> list[SessionId]:
        """Attempts that ingest should look at: no process does, or none has for too long."""

    async def postpone(self, session_ids: Iterable[SessionId], seconds: float) -> None:
        """These are looked after for so long."""

    async def leave(self, session_ids: Sequence[SessionId]) -> None:
        """Nothing more is to be done about these."""

    async def count_open(self) -> int:
        """How many attempts have not ended."""

    async def known(self, user_id: str) -> Known:
        """What there is about the attempts of a user."""

    async def forget(self, session_id: SessionId) -> bool:
        """Remove an attempt that has ended; whether it was removed. An open one stays."""

    async def mend(self, known: Known) -> None:
        """Give keys an end that have none."""

    async def show(self, session_id: SessionId, fence: int, sealed: str, seconds: float) -> None:
        """What the page is to show, for so long, says the holder with this fence."""

    async def shown(self, session_id: SessionId, fence: int) -> str | None:
        """What the holder with this fence shows."""

    async def put_password(self, session_id: SessionId, sealed: str, seconds: float) -> None:
        """Hand a password over; an earlier one that was not taken is gone."""

    async def take_password(self, session_id: SessionId) -> str | None:
        """The password that was handed over, for one taker."""


def seconds_of(moment: Any) -> float | None:
    """A stamp in seconds since 1970, however a store writes it: on Redis as such, on SQLite as text in UTC."""
    if moment is None or moment == "":
        return None
    if isinstance(moment, datetime):
        return moment.timestamp()
    try:
        return float(moment)
    except ValueError:
        return datetime.fromisoformat(str(moment)).replace(tzinfo=UTC).timestamp()
