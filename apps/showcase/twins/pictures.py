"""A picture is finished: its callback comes, sometimes twice, and a poller finds the picture too. Each wants to send it."""

from typing import Any

from raceproof import Delivery
from showcase.twins.scenario import Code, Scenario

picture = Delivery(
    "picture",
    table="pictures",
    key="picture_id",
    state="delivery_state",
    holder="delivered_by",
    stale=3.0,
    policy="hold",
)


class Unguarded(Code):
    """Look whether it was delivered, send it, write that it was."""

    async def hear(self, told: dict[str, Any]) -> None:
        await self.deliver(told["key"])

    async def turn(self) -> None:
        unsent = "SELECT picture_id FROM pictures WHERE delivered_at IS NULL LIMIT 20"
        for (key,) in await self._desk.sql(unsent):
            await self.deliver(key)

    async def deliver(self, key: str) -> None:
        [[done]] = await self._desk.sql("SELECT delivered_at FROM pictures WHERE picture_id = ?", key)
        if done is None:
            await self._desk.ask("send_picture", key=key)
            await self._desk.sql("UPDATE pictures SET delivered_at = datetime('now') WHERE picture_id = ?", key)


class Guarded(Code):
    """One sender gets the permit, and how its block ends is how the delivery ends."""

    async def hear(self, told: dict[str, Any]) -> None:
        await self.deliver(told["key"])

    async def turn(self) -> None:
        unsent = """SELECT picture_id FROM pictures
                    WHERE delivered_at IS NULL AND coalesce(delivery_state, 'failed') = 'failed' LIMIT 20"""
        for (key,) in await self._desk.sql(unsent):
            await self.deliver(key)

    async def deliver(self, key: str) -> None:
        async with self._desk.db.deliver_once(picture, key, by=self._desk.me) as permit:
            if permit.won:
                await self._desk.ask("send_picture", key=key)
        if not permit.won:
            await self._desk.held_off("pictures", key, permit)


PICTURES = Scenario(
    name="pictures",
    title="Callback against poller",
    story="A picture is finished. Its callback comes, sometimes twice, and a poller finds the picture too; each sends it.",
    app="imagebot",
    unguarded=Unguarded,
    guarded=Guarded,
    done=("pictures in chats", "SELECT count(DISTINCT picture_id) FROM seen_pictures"),
    wrong={
        "sent twice": "SELECT count(*) - count(DISTINCT picture_id) FROM seen_pictures",
        "never sent": """
            SELECT count(*) FROM seen_orders AS o JOIN pictures AS p USING (picture_id)
            WHERE o.at < :before
              AND p.delivery_state IS NOT 'uncertain' AND p.delivery_state IS NOT 'sending'
              AND NOT EXISTS (SELECT 1 FROM seen_pictures AS s WHERE s.picture_id = o.picture_id)
        """,
    },
    held_off="left to another",
    held=(
        "end unknown, kept for a person",
        """
        SELECT count(*) FROM pictures WHERE delivery_state = 'uncertain'
            OR (delivery_state = 'sending' AND julianday(delivering_at) < julianday('now', '-4 seconds'))
        """,
    ),
)
