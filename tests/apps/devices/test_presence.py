"""Who is there: what is stored before it is acknowledged, what counts as a sign of life, and what an unknown node means."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiomqtt
import pytest
from sqlalchemy import select, text

from devices.settings import Settings, broker_options
from devices.tables import nodes
from tests.apps.devices.conftest import NODE, PlayedNode, Running, eventually, started

UNKNOWN = "gh-9/zone-9/node-9"


async def _node(service: Running, path: str = NODE) -> dict[str, Any] | None:
    async with service.service.database.read() as connection:
        found = await connection.execute(select(nodes).where(nodes.c.path == path))
        row = found.mappings().first()
        return dict(row) if row else None


@pytest.mark.parametrize("kind", ["node_hello", "lwt"])
async def test_a_greeting_and_a_last_will_are_stored_when_they_are_acknowledged(service: Running, kind: str) -> None:
    """What returns from `hear` is acknowledged to the broker next."""
    body = b"offline" if kind == "lwt" else b"{}"
    await service.service.listener.hear(service.topics.about(UNKNOWN, kind), body)
    found = await _node(service, UNKNOWN)
    assert found is not None
    assert (found["booted_at"] is not None, found["state"]) == (
        kind == "node_hello",
        "OFFLINE" if kind == "lwt" else "ONLINE",
    )


async def test_what_cannot_be_stored_is_neither_acknowledged_nor_forgotten(service: Running) -> None:
    presences, database = service.service.presences, service.service.database
    async with database.engine.begin() as connection:
        await connection.execute(text("ALTER TABLE nodes RENAME TO elsewhere"))
    with pytest.raises(Exception, match="nodes"):
        await presences.keep(UNKNOWN, "node_hello", b"{}", False)
    async with database.engine.begin() as connection:
        await connection.execute(text("ALTER TABLE elsewhere RENAME TO nodes"))
    await presences.write()
    found = await _node(service, UNKNOWN)
    assert found is not None
    assert found["booted_at"] is not None


async def test_heartbeats_are_not_in_the_session_that_keeps_responses(
    settings_of: Callable[..., Settings], broker: Any
) -> None:
    """While the service is away its session collects responses, greetings and last wills, and nothing that is repeated."""
    settings = settings_of()
    async with started(settings) as service:
        topics = service.topics
    async with aiomqtt.Client(**broker_options(settings.broker)) as node:
        for _ in range(20):
            await node.publish(topics.about(NODE, "heartbeat"), b"{}", qos=1)
        await node.publish(topics.about(NODE, "node_hello"), b"{}", qos=1)
    session = f"{settings.prefix}-{settings.instance}"
    async with aiomqtt.Client(**broker_options(settings.broker), identifier=session, clean_session=False) as ours:
        kinds: list[str] = []
        waiting = aiter(ours.messages)
        with suppress(TimeoutError):
            while True:  # the broker has no order between topics: after the greeting others may still come
                message = await asyncio.wait_for(anext(waiting), 1.5 if "node_hello" in kinds else 15)
                kinds.append(str(message.topic).rpartition("/")[2])
    assert kinds == ["node_hello"]


async def test_a_response_is_a_sign_of_life(settings_of: Callable[..., Settings], service: Running) -> None:
    await service.service.presences.keep(NODE, "lwt", b"offline", False)
    body = b'{"cmd_id": "nobody", "status": "DONE", "ts": 1}'
    await service.service.listener.hear(service.topics.response(NODE, "pump"), body)
    await eventually(lambda: _is(service, "ONLINE"))


async def _is(service: Running, state: str) -> bool:
    found = await _node(service)
    return found is not None and found["state"] == state


async def test_a_retained_offline_says_nothing_about_a_node_that_was_heard(service: Running) -> None:
    """It may be older than the heartbeats; what happens while we are away comes as a message of its own."""
    presences = service.service.presences
    await presences.keep(NODE, "lwt", b"offline", True)
    assert await _is(service, "ONLINE")
    await presences.keep(UNKNOWN, "lwt", b"offline", True)
    found = await _node(service, UNKNOWN)
    assert found is not None
    assert found["state"] == "OFFLINE"
    await presences.keep(NODE, "lwt", b"offline", False)
    assert await _is(service, "OFFLINE")


async def test_commands_for_a_node_that_was_never_heard_of_wait_for_its_greeting(
    service: Running, node: PlayedNode
) -> None:
    await service.submit("c-1", node=UNKNOWN)
    await service.submit("c-2")
    assert (await node.next())["cmd_id"] == "c-2"
    assert (await service.show("c-1"))["status"] == "QUEUED"
    await node.about("node_hello", node=UNKNOWN)
    assert (await node.next())["cmd_id"] == "c-1"


async def test_a_stop_is_tried_also_where_the_node_was_never_heard_of(service: Running, node: PlayedNode) -> None:
    await service.submit("stop-1", node=UNKNOWN, cmd="stop", params={})
    assert (await node.next())["cmd_id"] == "stop-1"
