"""Publishes what waits, one command of a line after the other, and knows what it does not know.

A command is published by whoever holds both its claim and the permit to send it. If the broker's answer is lost, or the
dispatcher dies in the middle, the command is *uncertain*: it is published again with the same id while the node would
notice (D5), and never after that unless a person says so.
"""

import json
import logging
import time
from datetime import timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from appkit.database import Database
from devices.lifecycle import Command, Permit, publish
from devices.marks import mark_command_send_failed
from devices.messages import Topics, signed_command
from devices.publisher import NoAcknowledgement, Publisher
from devices.settings import Settings
from devices.tables import commands, doubts, evidence, nodes
from raceproof import Claim, SendPermit, SendRefused, Worker
from raceproof.deliveries import NotSent
from raceproof.run import Failure

log = logging.getLogger("devices.dispatcher")

FORGOTTEN = "uncertain, and the node may have forgotten it"


class Dispatcher:
    """One of possibly many."""

    def __init__(self, database: Database, publisher: Publisher, settings: Settings) -> None:
        self._database = database
        self._db = database.store
        self._publisher = publisher
        self._settings = settings
        self._topics = Topics(settings.prefix)

    def worker(self) -> Worker:
        """The loop that claims, publishes and marks SENT."""
        return Worker(
            self._db,
            Command.dispatch,
            self.send,
            finish=Command.sent,
            by=self._settings.instance,
            parallel=self._settings.parallel,
            max_batch=10 * self._settings.parallel,
            poll=0.5,
            drain=self._settings.drain,
            returning=["node", "channel", "cmd", "params", "publish_state"],
        )

    async def send(self, claim: Claim[Any, Any]) -> None:
        """One try. When this returns, the broker has the command."""
        began = time.time()
        if claim.row["publish_state"] in ("sending", "uncertain"):
            await self._remember_doubt(claim.key)
        try:
            async with self._db.deliver_once(
                publish, claim.key, by=self._settings.instance, probe=self._probe, returning=["permit"]
            ) as answer:
                if isinstance(answer, SendPermit):
                    await self._publish(claim, answer, int(began))
                    return
        except NotSent as error:
            await mark_command_send_failed(claim, str(error), db=self._db)
            raise Failure(str(error)) from error
        except NoAcknowledgement as error:
            raise Failure(str(error)) from error
        if not isinstance(answer, SendRefused):
            raise Failure(str(answer))
        if answer.state == "uncertain":
            await self._db.move(Permit.withdraw, claim.key, set={"why": FORGOTTEN, "line": None})
            raise Failure(FORGOTTEN)
        if answer.state != "delivered":
            raise Failure(str(answer), delay=1.0)

    async def _publish(self, claim: Claim[Any, Any], granted: SendPermit, ts: int) -> None:
        """`ts` is from before the send permit: what an instance publishes after it was frozen in between, nodes refuse."""
        if granted.row["permit"] != "ALLOWED":
            raise NotSent("its permit was withdrawn meanwhile")
        row = claim.row
        payload = signed_command(
            self._settings.secret_of(row["node"]),
            row["node"],
            row["channel"],
            claim.key,
            row["cmd"],
            json.loads(row["params"]),
            ts,
        )
        await self._publisher.publish(self._topics.command(row["node"], row["channel"]), payload)

    async def _remember_doubt(self, cmd_id: str) -> None:
        """Write down when the first try with an unknown outcome was made: a node's memory counts from there."""
        insert = (sqlite if self._database.dialect == "sqlite" else postgresql).insert(doubts)
        tried = select(commands.c.cmd_id, commands.c.publishing_at).where(commands.c.cmd_id == cmd_id)
        async with self._database.read() as connection:
            await connection.execute(insert.from_select(["cmd_id", "since"], tried).on_conflict_do_nothing())

    async def _probe(self, granted: SendPermit) -> bool | None:
        """An earlier try may have arrived: True, it has; False, to send it again is harmless; None, unknown."""
        async with self._database.read() as connection:
            if (await connection.execute(select(evidence.c.number).where(evidence.c.cmd_id == granted.key))).first():
                return True
            tried = select(doubts.c.since, commands.c.publishing_at, nodes.c.booted_at).where(
                commands.c.cmd_id == granted.key
            )
            joined = commands.join(doubts, doubts.c.cmd_id == commands.c.cmd_id)
            joined = joined.outerjoin(nodes, nodes.c.path == commands.c.node)
            since, now, booted = (await connection.execute(tried.select_from(joined))).one()
        remembered = now - since < timedelta(seconds=self._settings.memory - self._settings.puback)
        rebooted = booted is not None and booted >= since
        return False if remembered and not rebooted else None
