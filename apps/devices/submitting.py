"""Commands come in once each, and can be taken back while they wait.

The same `cmd_id` with the same content is the same command; with other content it is refused. A stop that is new clears
everything that was submitted before it to its channel, in the same transaction, and comes before every other line.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, moment_value, store_now
from appkit.together import Together
from devices.lifecycle import WAITING, Allowance, Command, Permit, Status, publish
from devices.metrics import Metrics
from devices.tables import commands, evidence
from raceproof import AsyncStore

SUBMISSIONS = 0x6465766963657300
"""The advisory lock between stops and all other submissions."""
DOUBTFUL = ("sending", "uncertain")
"""A command that is so and waits may have arrived."""
URGENT = ("stop", "emergency_stop")
"""These are stops without being asked."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request: what a node is to do."""

    node: str
    channel: str
    cmd: str
    params: dict[str, Any]
    cmd_id: str | None = None
    valid_for: float | None = None
    urgent: bool = False

    @property
    def line(self) -> str:
        return f"{self.node}/{self.channel}"

    @property
    def stops(self) -> bool:
        return self.urgent or self.cmd in URGENT

    @property
    def content(self) -> dict[str, Any]:
        params = json.dumps(self.params, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return {"node": self.node, "channel": self.channel, "cmd": self.cmd, "params": params}


@dataclass(frozen=True, slots=True)
class Submitted:
    """`created`, `known` (the same was there already) or `different` (its id is another command's), and the row."""

    outcome: Literal["created", "known", "different"]
    command: dict[str, Any]
    cleared: int = 0
    """Commands that a stop has taken out of the queue."""
    under_way: int = 0
    """Commands that a stop could not take back for sure: a dispatcher has them, or an earlier try may have arrived."""


class Declined(Exception):
    """What was asked for cannot be done any more; says why, in words for people."""


class UnknownCommand(Exception):
    """No command has this id."""


class Submitting:
    """What users ask for."""

    def __init__(self, database: Database, metrics: Metrics, valid: float) -> None:
        self._database = database
        self._metrics = metrics
        self._valid = valid
        self._together = Together(self._keep_all)

    async def submit(self, wanted: Wanted) -> Submitted:
        """Keep a command. When this returns it is durable."""
        named = wanted if wanted.cmd_id else replace(wanted, cmd_id=f"c-{secrets.token_hex(10)}")
        done = await self._together.ask(named)
        self._metrics.submitted.labels(done.outcome).inc()
        return done

    async def _keep_all(self, many: Sequence[Wanted]) -> list[Submitted]:
        """Those that come together share the transaction, in the order in which they came."""
        stops = any(wanted.stops for wanted in many)
        async with self._database.transaction() as (connection, db):
            await _enter(connection, alone=stops)
            done = await self._keep(connection, many)
            if stops:
                done = [
                    await _clear(connection, db, wanted, one) if wanted.stops and one.outcome == "created" else one
                    for wanted, one in zip(many, done, strict=True)
                ]
        await self._offer(done)
        return done

    async def _offer(self, done: Sequence[Submitted]) -> None:
        """Wake up dispatchers."""
        if created := [one.command["cmd_id"] for one in done if one.outcome == "created"]:
            await self._database.store.offer(Command.dispatch, created)

    async def _keep(self, connection: AsyncConnection, many: Sequence[Wanted]) -> list[Submitted]:
        """Insert what is new, all of it in one statement, and compare the rest with what is there."""
        dialect: Any = sqlite if self._database.dialect == "sqlite" else postgresql
        now = (await connection.execute(select(store_now(connection)))).scalar_one()
        first: dict[str | None, Wanted] = {}
        for wanted in many:
            first.setdefault(wanted.cmd_id, wanted)
        write = dialect.insert(commands).on_conflict_do_nothing(index_elements=["cmd_id"]).returning(commands)
        made = await connection.execute(write, [self._row(wanted, now) for wanted in first.values()])
        rows = {row["cmd_id"]: row for row in made.mappings()}
        created = {cmd_id: first[cmd_id] for cmd_id in rows}
        if missing := first.keys() - rows.keys():
            found = await connection.execute(select(commands).where(commands.c.cmd_id.in_(missing)))
            rows |= {row["cmd_id"]: row for row in found.mappings()}
        return [_submitted(wanted, rows[wanted.cmd_id], created.get(wanted.cmd_id) is wanted) for wanted in many]

    def _row(self, wanted: Wanted, now: datetime) -> dict[str, Any]:
        return {
            "cmd_id": wanted.cmd_id,
            **wanted.content,
            "status": Status.QUEUED,
            "permit": Allowance.ALLOWED,
            "rank": 0 if wanted.stops else 1,
            "line": wanted.line,
            "made_at": now,
            "valid_until": now + timedelta(seconds=wanted.valid_for or self._valid),
            "claims": 0,
            "publishes": 0,
        }

    async def cancel(self, cmd_id: str, by: str, reason: str) -> None:
        """Take a command back that waits; `Declined` once it is on its way.

        One that may have arrived ends as TIMEOUT, because nothing proves that it did not leave.
        """
        why = f"cancelled by {by}: {reason}"
        async with self._database.transaction() as (connection, db):
            row = await _standing(connection, cmd_id)
            doubtful = row["publish_state"] in DOUBTFUL
            held = doubtful and row["permit"] == Allowance.WITHDRAWN and row["status"] == Status.QUEUED
            if declined := _not_waiting(row):
                raise Declined(declined)
            if row["permit"] == Allowance.WITHDRAWN and not held:
                raise Declined(f"it was taken back already: {row['why']}")
            if not held:
                told = {"why": why, "line": None}
                (await db.move(Permit.withdraw, cmd_id, set=told, by=by, reason=reason)).must()
            if row["status"] == Status.QUEUED:
                end = Command.timeout if doubtful else Command.send_failed
                (
                    await db.move(end, cmd_id, set={} if doubtful else {"error_message": why}, by=by, reason=reason)
                ).must()

    async def resend(self, cmd_id: str, by: str, reason: str) -> None:
        """A person decides that a command which was taken back, or which may have arrived, is published (again).

        It is valid for as long as a new one. `Declined` where a node has answered already.
        """
        async with self._database.transaction() as (connection, db):
            row = await _standing(connection, cmd_id)
            if declined := _not_waiting(row) or await _answered(connection, cmd_id):
                raise Declined(declined)
            if row["permit"] == Allowance.ALLOWED:
                raise Declined("it may be published already, and waits for its turn or its node")
            told = {
                "why": f"override by {by}: {reason}",
                "line": f"{row['node']}/{row['channel']}",
                "overridden_by": by,
                "valid_until": moment_value(self._database, row["now"] + timedelta(seconds=self._valid)),
            }
            (await db.move(Permit.grant, cmd_id, set=told, by=by, reason=reason)).must()
            if row["publish_state"] in DOUBTFUL and not (await db.resolve(publish, cmd_id, arrived=False, by=by)).won:
                raise Declined("a try to publish it may still be under way; ask again in some seconds")
        await self._database.store.offer(Command.dispatch, [cmd_id])


async def _standing(connection: AsyncConnection, cmd_id: str) -> RowMapping:
    """The row, locked, with the time and whether a dispatcher has it."""
    now = store_now(connection)
    wanted = select(commands, now.label("now"), (commands.c.claimed_until > now).label("held"))
    found = await connection.execute(wanted.where(commands.c.cmd_id == cmd_id).with_for_update())
    row = found.mappings().first()
    if row is None:
        raise UnknownCommand(cmd_id)
    return row


def _not_waiting(row: RowMapping) -> str | None:
    """Why nothing can be decided about it any more."""
    if row["status"] in (Status.SENT, Status.ACK):
        return f"it is at {row['status']}: the broker has it, so it can be neither taken back nor sent again"
    if row["status"] not in WAITING:
        return f"it has ended at {row['status']}; submit a new command instead"
    return "it is being published at this moment; ask again in some seconds" if row["held"] else None


async def _answered(connection: AsyncConnection, cmd_id: str) -> str | None:
    said = select(evidence.c.status).where(evidence.c.cmd_id == cmd_id).order_by(evidence.c.number.desc())
    status = (await connection.execute(said.limit(1))).scalar()
    return f"its node has it, and said {status}; submit a new command instead" if status else None


async def _enter(connection: AsyncConnection, alone: bool) -> None:
    """A stop waits for submissions that are being stored, and they for it: what has a smaller number is there to be cleared.

    On SQLite every transaction has the write lock already.
    """
    if connection.dialect.name != "sqlite":
        lock = func.pg_advisory_xact_lock if alone else func.pg_advisory_xact_lock_shared
        await connection.execute(select(lock(SUBMISSIONS)))


async def _clear(connection: AsyncConnection, db: AsyncStore, stop: Wanted, kept: Submitted) -> Submitted:
    """Take back all that waits in the channel of a stop and came before it; `kept` is the stop, which is new.

    What a dispatcher holds loses its permit too, so that it is not tried again; the stop waits until that try is over.
    """
    earlier = select(
        commands.c.cmd_id,
        commands.c.status,
        commands.c.publish_state.in_(DOUBTFUL) | (commands.c.claimed_until > store_now(connection)),
    ).where(
        commands.c.node == stop.node,
        commands.c.channel == stop.channel,
        commands.c.status.in_(WAITING),
        commands.c.permit == Allowance.ALLOWED,
        commands.c.number < kept.command["number"],
    )
    # not `move_many(where=…)`, which passes over rows that another transaction has locked
    found = (await connection.execute(earlier.order_by(commands.c.cmd_id).with_for_update())).all()
    why = f"stopped by {stop.cmd_id}"
    for start in range(0, len(found), 500):
        part = found[start : start + 500]
        keys = [cmd_id for cmd_id, _, _ in part]
        for answer in await db.move_many(Permit.withdraw, keys, set={"why": why, "line": None}):
            answer.must()
        unsent = [key for key, status, doubtful in part if status == Status.QUEUED and not doubtful]
        await db.move_many(Command.send_failed, unsent, set={"error_message": why})
    under_way = sum(bool(doubtful) for _, _, doubtful in found)
    return replace(kept, cleared=len(found) - under_way, under_way=under_way)


def _submitted(wanted: Wanted, row: RowMapping, created: bool) -> Submitted:
    same = {name: row[name] for name in wanted.content} == wanted.content
    return Submitted("created" if created else "known" if same else "different", shown(row))


def shown(row: RowMapping | dict[str, Any]) -> dict[str, Any]:
    """A command as the API shows it."""
    told = dict(row)
    told["params"] = json.loads(told["params"])
    told["urgent"] = told["rank"] == 0
    told["uncertain"] = told["publish_state"] in DOUBTFUL and told["status"] in WAITING
    told["ended"] = told["status"] not in (Status.QUEUED, Status.SENT, Status.ACK, Status.SEND_FAILED) or (
        told["status"] == Status.SEND_FAILED and told["permit"] == Allowance.WITHDRAWN
    )
    for hidden in ("rank", "line", "claims", "published_by", "rests_until", "claimed_until"):
        told.pop(hidden, None)
    return told
