"""A node remembers for five minutes what it has executed: a doubtful command goes again while it does, and not after that.

Time is not waited for: a try of which nobody knows the end is made, and then moved into the past.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update

from appkit.database import store_now
from devices.dispatcher import FORGOTTEN
from devices.lifecycle import publish
from devices.settings import Settings
from devices.tables import commands, doubts
from raceproof import SendPermit
from tests.apps.devices.conftest import NODE, PlayedNode, Running, eventually, played, started

PUBACK = 2.0
MEMORY = 300.0


@asynccontextmanager
async def quiet(settings: Settings) -> AsyncIterator[tuple[Running, PlayedNode]]:
    """A service and a node that is offline: what is submitted waits."""
    async with started(settings) as service, played(settings) as node:
        await presence(service, "lwt", b"offline")
        yield service, node


async def presence(service: Running, kind: str, body: bytes = b"{}") -> None:
    service.service.presences.hear(NODE, kind, body, False)
    await service.service.presences.write()


async def tried(service: Running, cmd_id: str, ago: float) -> None:
    """Somebody has tried to publish it so many seconds ago, and nobody knows what came of it."""
    await service.submit(cmd_id, channel=cmd_id)
    store = service.service.database.store
    with suppress(ConnectionResetError):
        async with store.deliver_once(publish, cmd_id, by="who died", probe=_nobody_knows) as permit:
            assert isinstance(permit, SendPermit)
            raise ConnectionResetError
    async with service.service.database.transaction() as (connection, _):
        await connection.execute(
            update(commands).where(commands.c.cmd_id == cmd_id).values(publishing_at=await before(connection, ago))
        )
    assert (await service.show(cmd_id))["uncertain"]


async def _nobody_knows(_: SendPermit) -> None:
    return None


async def before(connection: Any, ago: float) -> datetime:
    now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
    return now - timedelta(seconds=ago)


async def _first_tried(service: Running, cmd_id: str, ago: float) -> None:
    """The last try was not the first of which nobody knows the end."""
    async with service.service.database.transaction() as (connection, _):
        since = await before(connection, ago)
        await connection.execute(doubts.insert().values(cmd_id=cmd_id, since=since))


async def _held(service: Running, cmd_id: str) -> dict[str, Any]:
    async def withdrawn() -> dict[str, Any] | None:
        found = await service.show(cmd_id)
        return found if found["permit"] == "WITHDRAWN" else None

    found: dict[str, Any] = await eventually(withdrawn)
    return found


async def test_it_goes_again_with_the_same_id_while_the_node_remembers_and_not_after_that(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of(memory=MEMORY, puback=PUBACK)) as (service, node):
        await tried(service, "just-now", 0.1)
        await tried(service, "for-a-while", MEMORY - PUBACK - 60)
        await tried(service, "too-late", MEMORY - PUBACK)
        await tried(service, "an-hour-ago", 3600)
        await presence(service, "heartbeat")
        heard = {(await node.next())["cmd_id"] for _ in range(2)}
        assert heard == {"just-now", "for-a-while"}
        for cmd_id in heard:
            assert (await service.reaches(cmd_id, "SENT"))["publishes"] == 2
        for cmd_id in ("too-late", "an-hour-ago"):
            held = await _held(service, cmd_id)
            assert (held["why"], held["status"], held["publish_state"]) == (FORGOTTEN, "QUEUED", "uncertain")
        assert node.heard.empty()


async def test_the_node_s_memory_counts_from_the_first_try_of_which_nobody_knows_the_end(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of(memory=MEMORY, puback=PUBACK)) as (service, node):
        await tried(service, "again-and-again", 20)
        await _first_tried(service, "again-and-again", MEMORY + 20)
        await presence(service, "heartbeat")
        assert (await _held(service, "again-and-again"))["why"] == FORGOTTEN
        assert node.heard.empty()


async def test_what_the_node_may_have_forgotten_goes_again_by_the_word_of_a_person_only(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of(memory=MEMORY, puback=PUBACK)) as (service, node):
        await tried(service, "c-1", MEMORY)
        await presence(service, "heartbeat")
        await _held(service, "c-1")
        await service.submit("c-2", channel="c-1")
        assert (await node.next())["cmd_id"] == "c-2"  # it holds up nobody
        again = await service.submit("c-1", channel="c-1")
        assert again.status_code == 200  # which is no override
        await service.reaches("c-2", "SENT")
        assert (await service.show("c-1"))["permit"] == "WITHDRAWN"
        told = {"by": "ann", "reason": "the tank is as full as before"}
        assert (await service.client.post("/commands/c-1/resend", json=told)).status_code == 200
        assert (await node.next())["cmd_id"] == "c-1"
        assert (await service.reaches("c-1", "SENT"))["overridden_by"] == "ann"
        assert node.heard.empty()
