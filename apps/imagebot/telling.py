"""Messages to users, each a row written in the transaction that is the reason for it.

A worker sends it afterwards, so that neither a crash nor a Telegram that is away loses it. The same event gives one message.
"""

import json
from typing import Any

from imagebot.lifecycle import notices
from raceproof import AsyncStore
from raceproof.inbox import Arrival


async def tell(db: AsyncStore, user_id: int, chat_id: int, event: str, text: str, **values: Any) -> None:
    """Keep a notice: `text` is a name in `texts`, `values` are what it needs; `db` is that of the transaction."""
    body = json.dumps({"user_id": user_id, "chat_id": chat_id, "text": text, "values": values})
    arrival = Arrival("imagebot", f"{event}:{user_id}", body.encode(), ordering_key=f"{user_id}")
    await db.receive(notices, arrival)


async def tell_of(db: AsyncStore, job: Any, text: str, **values: Any) -> None:
    """A notice about a job, to its user."""
    told = {"job_id": job["job_id"], **values}
    event = f"{job['job_id']}:{text}:{values.get('attempt', '')}"
    await tell(db, job["user_id"], job["chat_id"], event, text, **told)
