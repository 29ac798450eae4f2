"""What the admins must know because orders fail on it: each kind of trouble at most once an hour, as a notice."""

import time
from typing import Any

from imagebot.settings import Settings
from imagebot.telling import tell
from raceproof import AsyncStore

HOUR = 3600


async def alert(db: AsyncStore, settings: Settings, kind: str, **values: Any) -> None:
    """Keep a notice for every admin, once an hour for each kind; the text is `alert_` and the kind up to a colon."""
    event = f"alert:{kind}:{int(time.time() // HOUR)}"
    for admin in settings.admin_ids:
        await tell(db, admin, admin, event, f"alert_{kind.partition(':')[0]}", **values)
