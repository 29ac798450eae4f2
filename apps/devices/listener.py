"""Takes what nodes say: stores a response, acknowledges it to the broker, and only then acts on it.

In any order, twice, late, about unknown commands, or garbage: a response moves a command where the lifecycle
allows it, and is kept as evidence where it does not. Evidence that a command was executed withdraws its permit, in the
same transaction, so that it is not sent again (D5).
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiomqtt
from sqlalchemy import insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from appkit.loops import Loop
from appkit.together import Together
from devices.lifecycle import Command, Permit, Status, responses
from devices.messages import Malformed, Response, Topics, read_response
from devices.metrics import Metrics
from devices.presence import Presences
from devices.tables import commands, evidence, refused_responses
from raceproof import AsyncStore, Claim, Worker, sql
from raceproof.declare import Move
from raceproof.inbox import Arrival
from raceproof.run import Finished

log = logging.getLogger("devices.listener")

IN_HAND = 500
"""Messages that are being stored at once; the broker holds the rest."""
KEPT_BYTES = 2000
"""Of a message that is refused."""


_ERROR = ("error_code", "error_message", "result_code")
MEANS: dict[str, tuple[Move[Status], tuple[str, ...]]] = {
    "ACK": (Command.ack, ()),
    "DONE": (Command.done, ("duration_ms", "result_code")),
    "NO_EFFECT": (Command.no_effect, ("duration_ms",)),
    "ERROR": (Command.failed, _ERROR),
    "INVALID": (Command.invalid, _ERROR),
    "BUSY": (Command.busy, _ERROR),
    "TIMEOUT": (Command.timeout, ()),
}
"""What a status in a response does to its command: the same moves as those of `devices.marks`."""
TRIED = ("sending", "delivered")
_TRIED_AGAIN = sql("t.status = 'SEND_FAILED' AND t.publish_state IN ('sending', 'delivered')")
"""Its send failed once and was tried again; the node answers before the dispatcher has marked it as sent."""
REFUSED = {"unknown": "no such command was sent", "forged": "another node was asked"}


@dataclass(frozen=True, eq=False, slots=True)
class Heard:
    """A response that was stored and is to be acted on."""

    topic: str
    event_id: str
    body: bytes
    response: Response

    @classmethod
    def of(cls, claim: Claim[Any, Any]) -> "Heard":
        body = bytes(claim.row["body"])
        topic = json.loads(claim.row["headers"])["topic"]
        return cls(topic, claim.row["event_id"], body, read_response(body))

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: getattr(self.response, name) for name in names}


class Listener:
    """Hears all nodes, on a session of its own that the broker keeps while we are away."""

    def __init__(
        self, database: Database, presences: Presences, metrics: Metrics, topics: Topics, instance: str
    ) -> None:
        self._database = database
        self._db = database.store
        self._presences = presences
        self._metrics = metrics
        self._topics = topics
        self._instance = instance
        self._together = Together(self._act_on_all)

    async def run(self, options: dict[str, Any], loop: Loop) -> None:
        """Listen until the connection breaks."""
        client = aiomqtt.Client(
            **options, identifier=f"{self._topics.prefix}-{self._instance}", clean_session=False, keepalive=15
        )
        # aiomqtt acknowledges before anybody has seen a message; paho below it can wait until it is stored
        paho = client._client
        paho.manual_ack_set(True)
        places = asyncio.Semaphore(IN_HAND)
        async with client, asyncio.TaskGroup() as group:
            for topic in self._topics.kept:
                await client.subscribe(topic, qos=1)
            for topic in self._topics.passing:  # sessions of earlier versions have these too
                await client.unsubscribe(topic)
            beating = group.create_task(loop.beating())

            async def take(message: aiomqtt.Message) -> None:
                try:
                    await self.hear(str(message.topic), _bytes(message.payload), bool(message.retain))
                    paho.ack(message.mid, message.qos)
                finally:
                    places.release()

            async for message in client.messages:
                await places.acquire()
                group.create_task(take(message))
            beating.cancel()

    async def hear(self, topic: str, body: bytes, retained: bool = False) -> None:
        """When this returns, the message is stored, or refused for good."""
        try:
            node, channel, kind = self._topics.parse(topic)
            if channel is None:
                await self._presences.keep(node, kind, body, retained)
                return
            read_response(body)
        except Malformed as error:
            await self._refuse(topic, body, str(error), "malformed")
            return
        event_id = hashlib.sha256(topic.encode() + b"\0" + body).hexdigest()
        await self._db.receive(
            responses,
            Arrival("mqtt", event_id, body, headers={"topic": topic}, ordering_key=f"{node}/{channel}"),
        )
        if not retained:
            self._presences.answered(node)

    async def run_passing(self, options: dict[str, Any], loop: Loop) -> None:
        """Hear heartbeats, of which the next one says as much: on a session that keeps none while we are away.

        In the session of the responses a minute of them would fill the broker's queue, and it would drop responses.
        """
        client = aiomqtt.Client(
            **options,
            identifier=f"{self._topics.prefix}-{self._instance}-beats",
            clean_session=True,
            keepalive=15,
        )
        async with client, asyncio.TaskGroup() as group:
            for topic in self._topics.passing:
                await client.subscribe(topic, qos=0)
            beating = group.create_task(loop.beating())
            async for message in client.messages:
                topic, body = str(message.topic), _bytes(message.payload)
                try:
                    node, _, kind = self._topics.parse(topic)
                    self._presences.hear(node, kind, body, bool(message.retain))
                except Malformed as error:
                    await self._refuse(topic, body, str(error), "malformed")
            beating.cancel()

    def worker(self, drain: float) -> Worker:
        """The loop that acts on what was stored."""
        return Worker(
            self._db,
            responses.work,
            self.act,
            finish=responses.finish,
            by=self._instance,
            parallel=200,
            poll=0.5,
            drain=drain,
            returning=["event_id", "body", "headers"],
        )

    async def act(self, claim: Claim[Any, Any]) -> type[Finished]:
        """What a response means for its command, in one transaction with its end in the inbox."""
        await self._together.ask(claim)
        return Finished

    async def _act_on_all(self, claims: Sequence[Claim[Any, Any]]) -> list[None]:
        """Responses that come together share the transaction; of one command there is at most one among them."""
        heard = [Heard.of(claim) for claim in claims]
        async with self._database.transaction() as (connection, db):
            outcomes = await self._mark_all(connection, db, heard)
            for answer in await db.move_many(responses.finish, claims):
                answer.must()
        for one, outcome in zip(heard, outcomes, strict=True):
            self._metrics.responses.labels(one.response.status, outcome).inc()
        return [None] * len(claims)

    async def _mark_all(self, connection: AsyncConnection, db: AsyncStore, heard: Sequence[Heard]) -> list[str]:
        ids = [one.response.cmd_id for one in heard]
        asked = (await connection.execute(select(commands).where(commands.c.cmd_id.in_(ids)))).all()
        topics = {row.cmd_id: self._topics.response(row.node, row.channel) for row in asked}
        outcomes: dict[Heard, str] = {}
        for one in heard:
            if one.response.cmd_id not in topics:
                outcomes[one] = "unknown"
            elif topics[one.response.cmd_id] != one.topic:
                outcomes[one] = "forged"
        genuine = [one for one in heard if one not in outcomes]
        again = {row.cmd_id for row in asked if row.status == Status.SEND_FAILED and row.publish_state in TRIED}
        if sent := [one.response.cmd_id for one in genuine if one.response.cmd_id in again]:
            await db.move_many(Command.sent, sent, where=_TRIED_AGAIN, reason="its node has answered")
        for status in dict.fromkeys(one.response.status for one in genuine):
            told = {one.response.cmd_id: one for one in genuine if one.response.status == status}
            move, names = MEANS[status]
            for answer in await db.move_many(
                move, {cmd_id: one.columns(names) for cmd_id, one in told.items()} if names else list(told)
            ):
                refused = answer.outcome == "refused"
                outcomes[told[str(answer.key)]] = "late" if refused else answer.outcome
        await self._keep(connection, {one: outcomes[one] for one in genuine})
        for one in heard:
            if one not in genuine:
                await _keep_refused(connection, one.topic, one.body, REFUSED[outcomes[one]])
        late = [one for one in genuine if outcomes[one] == "late"]
        if late:
            why = {one.response.cmd_id: {"why": f"the node says {one.response.status}", "line": None} for one in late}
            await db.move_many(Permit.withdraw, why, by="listener")
        return [outcomes[one] for one in heard]

    async def _keep(self, connection: AsyncConnection, taken: Mapping[Heard, str]) -> None:
        if not taken:
            return
        dialect: Any = sqlite if self._database.dialect == "sqlite" else postgresql
        now = (await connection.execute(select(store_now(connection)))).scalar_one()
        rows = [
            {
                "cmd_id": one.response.cmd_id,
                "status": one.response.status,
                "told_at_ms": one.response.ts,
                "body": one.body.decode(),
                "outcome": outcome,
                "event_id": one.event_id,
                "at": now,
            }
            for one, outcome in taken.items()
        ]
        await connection.execute(dialect.insert(evidence).on_conflict_do_nothing(), rows)

    async def _refuse(self, topic: str, body: bytes, why: str, outcome: str) -> None:
        async with self._database.transaction() as (connection, _):
            await _keep_refused(connection, topic, body, why)
        self._metrics.responses.labels("none", outcome).inc()


async def _keep_refused(connection: AsyncConnection, topic: str, body: bytes, why: str) -> None:
    log.warning("a message on %r is refused: %s", topic[:200], why)
    await connection.execute(
        insert(refused_responses).values(topic=topic[:200], why=why, body=body[:KEPT_BYTES], at=store_now(connection))
    )


def _bytes(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else str(payload or "").encode()
