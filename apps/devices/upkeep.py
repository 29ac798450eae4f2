"""By the clock: commands without an answer, commands that have waited too long, and figures."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from appkit.database import Database, moment_value, store_now
from devices.lifecycle import WAITING, Command, Permit, Presence, Status, responses, schedules
from devices.metrics import Metrics
from devices.settings import Settings
from devices.submitting import DOUBTFUL
from devices.tables import commands, nodes
from raceproof import Scheduler, sql

BATCH = 1000
_FREE = sql("(t.claimed_until IS NULL OR t.claimed_until <= CURRENT_TIMESTAMP)")

_HEARD = sql(
    "NOT EXISTS (SELECT 1 FROM responses AS r WHERE r.ordering_key = t.node || '/' || t.channel"
    " AND r.status IN ('received', 'processing'))"
)
"""Nothing that its channel said waits to be acted on: after an outage that may be the answer."""
_DOUBTFUL = sql("t.publish_state IN ('sending', 'uncertain')")
_CERTAIN = sql("(t.publish_state IS NULL OR t.publish_state NOT IN ('sending', 'uncertain'))")


class Upkeep:
    """What has to be done now and then, by one instance at a time."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics) -> None:
        self._database = database
        self._db = database.store
        self._settings = settings
        self._metrics = metrics

    def scheduler(self) -> Scheduler:
        scheduler = Scheduler(self._db, schedules, by=self._settings.instance)
        scheduler.every(min(5.0, self._settings.answer / 5), "timeouts", self.time_out)
        scheduler.every(3600.0, "forgetting", self.forget)
        return scheduler

    async def time_out(self) -> None:
        """SENT and ACK without an answer, and what has waited until it is no longer valid."""
        now = await self._now()
        before = moment_value(self._database, now - timedelta(seconds=self._settings.answer))
        at = moment_value(self._database, now)
        unanswered = sql(
            "t.status IN ('SENT', 'ACK') AND t.sent_at < {before} AND (t.ack_at IS NULL OR t.ack_at < {before})",
            before=before,
        )
        without_sent = sql("t.status = 'ACK' AND t.sent_at IS NULL AND t.ack_at < {before}", before=before)
        await self._end(Command.timeout, unanswered, _HEARD, reason="no answer")
        await self._end(Command.timeout, without_sent, _HEARD, reason="no answer")
        expired = sql("t.valid_until < {at}", at=at)
        queued = sql("t.status = 'QUEUED'")
        await self._end(Command.timeout, queued, expired, _FREE, _CERTAIN, reason="it could not be sent in time")
        held = {"why": "expired, and an earlier try may have arrived: a person decides", "line": None}
        await self._end(Permit.withdraw, queued, expired, _FREE, _DOUBTFUL, set=held)
        undecided = moment_value(self._database, now - timedelta(seconds=self._settings.hold))
        await self._end(
            Command.timeout,
            queued,
            sql("t.permit = 'WITHDRAWN' AND t.valid_until < {undecided}", undecided=undecided),
            _FREE,
            _DOUBTFUL,
            reason="it may have arrived, and no person has decided",
        )
        await self._end(
            Permit.withdraw,
            sql("t.status = 'SEND_FAILED'"),
            expired,
            _FREE,
            set={"why": "expired", "line": None},
        )

    async def forget(self) -> None:
        """Responses that were dealt with long ago."""
        while await self._db.forget_events(responses, BATCH):
            pass

    async def measure(self) -> None:
        """Figures of the whole table, bounded by indexes of what is open."""
        async with self._database.read() as connection:
            open_statuses = (Status.QUEUED, Status.SENT, Status.ACK, Status.SEND_FAILED)
            found = await connection.execute(
                select(commands.c.status, func.count())
                .where(commands.c.status.in_(open_statuses))
                .where((commands.c.status != Status.SEND_FAILED) | (commands.c.permit == "ALLOWED"))
                .group_by(commands.c.status)
            )
            counts: dict[str, int] = dict(found.all())
            for status in open_statuses:
                self._metrics.commands.labels(status).set(counts.get(status, 0))
            uncertain = select(func.count()).where(
                commands.c.status.in_(WAITING), commands.c.publish_state.in_(DOUBTFUL)
            )
            self._metrics.uncertain.set((await connection.execute(uncertain)).scalar_one())
            there = await connection.execute(select(nodes.c.state, func.count()).group_by(nodes.c.state))
            states: dict[str, int] = dict(there.all())
            for state in Presence:
                self._metrics.nodes.labels(state).set(states.get(state, 0))
            oldest = select(store_now(connection), func.min(commands.c.made_at)).where(
                commands.c.status == Status.QUEUED
            )
            now, made = (await connection.execute(oldest)).one()
            self._metrics.oldest.set((now - _moment(made)).total_seconds() if made else 0)

    async def _end(self, move: Any, *where: Any, **options: Any) -> None:
        while len(await self._db.move_many(move, where=where, limit=BATCH, by="upkeep", **options)) == BATCH:
            pass

    async def _now(self) -> datetime:
        async with self._database.read() as connection:
            now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
            return now


def _moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}+00:00")
