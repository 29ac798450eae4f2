"""What the admins must know because orders fail on it: each kind of trouble at most once an hour, as a notice."""

import logging
import time
from typing import Any

from imagebot.settings import Settings
from imagebot.telling import tell
from raceproof import AsyncStore

log = logging.getLogger("imagebot.alerts")

HOUR = 3600


async def alert(db: AsyncStore, settings: Settings, kind: str, **values: Any) -> None:
    """Keep a notice for every admin, once an hour for each kind; its text is `alert_` and the kind."""
    event = f"alert:{kind}:{int(time.time() // HOUR)}"
    for admin in settings.admin_ids:
        await tell(db, admin, admin, event, f"alert_{kind}", **values)


class KieAlarm:
    """Tells the admins what KIE has against our account; asks the store once an hour for each code."""

    def __init__(self, db: AsyncStore, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._told: dict[int, int] = {}

    async def __call__(self, code: int, why: str) -> None:
        hour = int(time.time() // HOUR)
        if self._told.get(code) != hour:
            log.error("[KIE_ACCOUNT] KIE answers %s: %s", code, why)
            await alert(self._db, self._settings, f"kie_{code}", why=why)
            self._told[code] = hour
