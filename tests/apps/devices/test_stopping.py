"""An emergency stop clears all that came before it, nothing newer, and nothing when it is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import func, select, update

from appkit.loops import Loop
from devices.dispatcher import Dispatcher
from devices.lifecycle import Command
from devices.publisher import Publisher
from devices.settings import Settings, broker_options
from devices.submitting import Wanted
from devices.tables import commands, nodes
from raceproof import bind
from raceproof.run import Failure
from tests.apps.devices.conftest import NODE, PlayedNode, Running, eventually, played, started
from tests.apps.devices.test_memory import before


@asynccontextmanager
async def away(settings: Settings) -> AsyncIterator[tuple[Running, PlayedNode]]:
    """A service whose node is offline, so that commands wait."""
    async with started(settings) as service, played(settings) as node:
        await node.about("lwt", b"offline")
        await eventually(lambda: _offline(service))
        yield service, node


async def _offline(service: Running) -> bool:
    found = (await service.client.get("/nodes")).json()["nodes"]
    return any(one["path"] == NODE and one["state"] == "OFFLINE" for one in found)


async def _doses(service: Running, number: int, name: str = "dose") -> None:
    wanted = [Wanted(NODE, "pump", "dose", {"ml": 5}, f"{name}-{one:04}") for one in range(number)]
    await asyncio.gather(*(service.service.submitting.submit(one) for one in wanted))


async def _allowed(service: Running) -> int:
    async with service.service.database.read() as connection:
        waits = select(func.count()).where(commands.c.cmd == "dose", commands.c.permit == "ALLOWED")
        return int((await connection.execute(waits)).scalar_one())


async def test_an_emergency_stop_clears_every_command_submitted_before_it(
    settings_of: Callable[..., Settings],
) -> None:
    async with away(settings_of()) as (service, node):
        await _doses(service, 1500)
        stopped = (await service.submit("stop-1", cmd="emergency_stop", params={})).json()
        assert (stopped["cleared"], await _allowed(service)) == (1500, 0)
        await node.about("heartbeat")
        assert (await node.next())["cmd_id"] == "stop-1"
        await service.submit("after")
        assert (await node.next())["cmd_id"] == "after"


async def test_a_stop_that_comes_together_with_commands_clears_those_before_it_only(
    settings_of: Callable[..., Settings],
) -> None:
    """They share a transaction; their order is that in which they came."""
    async with away(settings_of()) as (service, _):
        submit = service.service.submitting.submit
        many = [Wanted(NODE, "pump", "dose", {"ml": one}, f"c-{one}") for one in range(30)]
        stop = Wanted(NODE, "pump", "stop", {}, "stop-1")
        done = await asyncio.gather(*(submit(one) for one in [*many[:20], stop, *many[20:]]))
        assert (done[20].cleared, await _allowed(service)) == (20, 10)


async def test_a_repeated_stop_clears_nothing_newer(settings_of: Callable[..., Settings]) -> None:
    async with away(settings_of()) as (service, _):
        await _doses(service, 3)
        assert (await service.submit("stop-1", cmd="stop", params={})).json()["cleared"] == 3
        await _doses(service, 2, "newer")
        again = await service.submit("stop-1", cmd="stop", params={})
        assert (again.status_code, again.json()["cleared"], await _allowed(service)) == (200, 0, 2)


async def test_a_stop_that_is_refused_clears_nothing(settings_of: Callable[..., Settings]) -> None:
    async with away(settings_of()) as (service, _):
        await service.submit("taken", channel="relay")
        await _doses(service, 2)
        refused = await service.submit("taken", cmd="stop", params={})
        assert (refused.status_code, await _allowed(service)) == (409, 3)


async def test_a_stop_clears_its_own_channel_only(settings_of: Callable[..., Settings]) -> None:
    async with away(settings_of()) as (service, _):
        await service.submit("relay", channel="relay")
        await service.submit("elsewhere", node="gh-1/zone-1/node-2")
        assert (await service.submit("stop-1", cmd="stop", params={})).json()["cleared"] == 0
        assert (await service.show("relay"))["permit"] == "ALLOWED"


async def test_a_stop_withdraws_what_a_dispatcher_has_and_waits_until_that_try_is_over(
    settings_of: Callable[..., Settings],
) -> None:
    async with away(settings_of()) as (service, node):
        database = service.service.database
        await service.submit("c-1")
        await _claimed(service, "c-1", seconds=60)
        stopped = (await service.submit("stop-1", cmd="stop", params={})).json()
        assert (stopped["cleared"], stopped["under_way"]) == (0, 1)
        found = await service.show("c-1")
        assert (found["status"], found["permit"]) == ("QUEUED", "WITHDRAWN")
        await node.about("heartbeat")
        await service.submit("relay", channel="relay")
        assert (await node.next())["cmd_id"] == "relay"  # the stop waits for the one that is on its way
        assert (await service.show("stop-1"))["status"] == "QUEUED"
        (await database.store.move(Command.send_failed, "c-1", set={"error_message": "no route"})).must()
        await _claimed(service, "c-1", seconds=-1)
        assert (await node.next())["cmd_id"] == "stop-1"
        await service.submit("after")
        assert (await node.next())["cmd_id"] == "after"  # what was stopped holds up nobody
        assert node.heard.empty()


async def _claimed(service: Running, cmd_id: str, seconds: float) -> None:
    """As if another instance had it, for so many seconds."""
    async with service.service.database.transaction() as (connection, _):
        later = await before(connection, -seconds)
        mine = update(commands).where(commands.c.cmd_id == cmd_id)
        await connection.execute(mine.values(claimed_by="another", claimed_until=later))


async def test_a_dispatcher_looks_at_the_permit_again_when_it_has_the_turn(
    settings_of: Callable[..., Settings],
) -> None:
    """A stop may have come between its claim and its turn."""
    async with away(settings_of()) as (service, node):
        database = service.service.database
        await service.submit("c-1")
        async with database.transaction() as (connection, _):
            await connection.execute(update(nodes).values(state="ONLINE"))
            (claim,) = await bind(connection).claim(
                Command.dispatch,
                limit=1,
                by="this",
                returning=["node", "channel", "cmd", "params", "publish_state"],
            )
        await service.submit("stop-1", cmd="stop", params={})
        publisher = Publisher(broker_options(service.settings.broker), "this", 5.0)
        publishing = asyncio.create_task(publisher.run(Loop("publisher", 60)))
        await eventually(lambda: _connected(publisher))
        with pytest.raises(Failure, match="withdrawn"):
            await Dispatcher(database, publisher, service.settings).send(claim)
        publishing.cancel()
        assert (await service.show("c-1"))["status"] == "SEND_FAILED"
        assert node.heard.empty()


async def test_a_failed_send_is_not_marked_by_an_instance_that_has_lost_the_command(
    settings_of: Callable[..., Settings],
) -> None:
    """It slept past its lease, and another has the command now."""
    async with away(settings_of()) as (service, _):
        database = service.service.database
        await service.submit("c-1")
        async with database.transaction() as (connection, _):
            db = bind(connection)
            await connection.execute(update(nodes).values(state="ONLINE"))
            returning = ["node", "channel", "cmd", "params", "publish_state"]
            (lost,) = await db.claim(Command.dispatch, limit=1, by="this", returning=returning)
            over = update(commands).values(claimed_until=await before(connection, 5))
            await connection.execute(over)
            await db.claim(Command.dispatch, limit=1, by="another")
        unconnected = Publisher(broker_options(service.settings.broker), "this", 5.0)
        with pytest.raises(Failure, match="no connection"):
            await Dispatcher(database, unconnected, service.settings).send(lost)
        assert (await service.show("c-1"))["status"] == "QUEUED"


async def _connected(publisher: Publisher) -> bool:
    return publisher.connected


async def test_a_command_that_may_have_arrived_is_not_called_unsent_by_a_stop(
    settings_of: Callable[..., Settings],
) -> None:
    async with away(settings_of()) as (service, _):
        await service.submit("c-1")
        async with service.service.database.transaction() as (connection, _):
            mine = update(commands).where(commands.c.cmd_id == "c-1")
            await connection.execute(mine.values(publish_state="uncertain"))
        stopped = (await service.submit("stop-1", cmd="stop", params={})).json()
        assert (stopped["cleared"], stopped["under_way"]) == (0, 1)
        found: dict[str, Any] = await service.show("c-1")
        assert (found["status"], found["permit"], found["uncertain"]) == ("QUEUED", "WITHDRAWN", True)


async def test_commands_that_come_together_are_kept_and_published_in_their_order(
    settings_of: Callable[..., Settings],
) -> None:
    async with away(settings_of()) as (service, node):
        await _doses(service, 25)
        await node.about("heartbeat")
        heard = [(await node.next())["cmd_id"] for _ in range(25)]
        assert heard == sorted(heard)
