"""Takes what nodes say: stores a response, acknowledges it to the broker, and only then acts on it.

In any order, twice, late, about commands that nobody knows, or garbage: a response moves a command where the lifecycle
allows it, and is kept as evidence where it does not. Evidence that a command was executed withdraws its permit, in the
same transaction, so that it is not sent again (D5).
"""

import asyncio
import hashlib
import json
import logging
from typing import Any

import aiomqtt
from sqlalchemy import insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from appkit.loops import Loop
from devices.lifecycle import Permit, responses
from devices.marks import (
    Marked,
    mark_command_ack,
    mark_command_busy,
    mark_command_done,
    mark_command_failed,
    mark_command_invalid,
    mark_command_no_effect,
    mark_command_timeout,
)
from devices.messages import Malformed, Response, Topics, read_response
from devices.metrics import Metrics
from devices.presence import Presences
from devices.tables import commands, evidence, refused_responses
from raceproof import Arrival, AsyncStore, Claim, Finished, Worker

log = logging.getLogger("devices.listener")

IN_HAND = 500
"""Messages that are being stored at once; the broker holds the rest."""
KEPT_BYTES = 2000
"""Of a message that is refused."""


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
            for topic in self._topics.subscriptions:
                await client.subscribe(topic, qos=1)
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
                self._presences.hear(node, kind, body, retained)
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

    def worker(self) -> Worker:
        """The loop that acts on what was stored."""
        return Worker(
            self._db,
            responses.work,
            self.act,
            finish=responses.finish,
            by=self._instance,
            parallel=20,
            poll=0.5,
            returning=["event_id", "body", "headers"],
        )

    async def act(self, claim: Claim[Any, Any]) -> type[Finished] | None:
        """What a response means for its command, in one transaction with its end in the inbox."""
        body, topic = bytes(claim.row["body"]), json.loads(claim.row["headers"])["topic"]
        response = read_response(body)
        async with self._database.transaction() as (connection, db):
            found = (
                await connection.execute(
                    select(commands.c.node, commands.c.channel).where(commands.c.cmd_id == response.cmd_id)
                )
            ).first()
            if found is None or self._topics.response(*found) != topic:
                why = "nobody has sent this command" if found is None else "another node was asked"
                outcome = "unknown" if found is None else "forged"
                await _keep_refused(connection, topic, body, why)
            else:
                outcome = await _apply(connection, db, response, claim.row["event_id"], body)
            (await db.move(responses.finish, claim)).must()
        self._metrics.responses.labels(response.status, outcome).inc()
        return Finished

    async def _refuse(self, topic: str, body: bytes, why: str, outcome: str) -> None:
        async with self._database.transaction() as (connection, _):
            await _keep_refused(connection, topic, body, why)
        self._metrics.responses.labels("none", outcome).inc()


async def _apply(
    connection: AsyncConnection, db: AsyncStore, response: Response, event_id: str, body: bytes
) -> str:
    answer = await _mark(response, db)
    outcome = "late" if answer.outcome == "refused" else answer.outcome
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    await connection.execute(
        dialect.insert(evidence)
        .values(
            cmd_id=response.cmd_id,
            status=response.status,
            told_at_ms=response.ts,
            body=body.decode(),
            outcome=outcome,
            event_id=event_id,
            at=store_now(connection),
        )
        .on_conflict_do_nothing()
    )
    if outcome == "late":
        why = f"the node says {response.status}"
        await db.move(Permit.withdraw, response.cmd_id, set={"why": why, "line": None}, by="listener")
    return outcome


async def _mark(response: Response, db: AsyncStore) -> Marked:
    cmd_id, error = response.cmd_id, (response.error_code, response.error_message, response.result_code)
    match response.status:
        case "ACK":
            return await mark_command_ack(cmd_id, db=db)
        case "DONE":
            return await mark_command_done(cmd_id, response.duration_ms, response.result_code, db=db)
        case "NO_EFFECT":
            return await mark_command_no_effect(cmd_id, response.duration_ms, db=db)
        case "INVALID":
            return await mark_command_invalid(cmd_id, *error, db=db)
        case "BUSY":
            return await mark_command_busy(cmd_id, *error, db=db)
        case "TIMEOUT":
            return await mark_command_timeout(cmd_id, db=db)
        case _:
            return await mark_command_failed(cmd_id, *error, db=db)


async def _keep_refused(connection: AsyncConnection, topic: str, body: bytes, why: str) -> None:
    log.warning("a message on %r is refused: %s", topic[:200], why)
    await connection.execute(
        insert(refused_responses).values(
            topic=topic[:200], why=why, body=body[:KEPT_BYTES], at=store_now(connection)
        )
    )


def _bytes(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else str(payload or "").encode()
