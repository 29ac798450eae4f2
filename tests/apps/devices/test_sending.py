"""What is published, in which order, how often, and what happens when nobody knows."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from devices.settings import Settings
from raceproof.testing import mqtt
from tests.apps.devices.conftest import NODE, SECRET, PlayedNode, Running, eventually, played, started


async def test_a_command_is_signed_as_nodes_expect(service: Running, node: PlayedNode) -> None:
    await service.submit("c-1", params={"ml": 5, "note": "grün"})
    heard = await node.next()
    signature = heard.pop("sig")
    canonical = json.dumps(heard, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert signature == hmac.new(SECRET.encode(), canonical, hashlib.sha256).hexdigest()
    assert abs(heard["ts"] - time.time()) < 10
    assert (heard["v"], heard["node"], heard["channel"]) == (2, NODE, "pump")
    assert (heard["cmd_id"], heard["cmd"], heard["params"]) == ("c-1", "dose", {"ml": 5, "note": "grün"})
    found = await service.reaches("c-1", "SENT")
    assert found["publishes"] == 1


async def test_commands_of_a_channel_are_published_in_their_order(service: Running, node: PlayedNode) -> None:
    for number in range(40):
        await service.submit(f"c-{number}", channel="relay" if number % 2 else "pump")
    heard = [(await node.next())["cmd_id"] for _ in range(40)]
    for odd in (0, 1):
        ours = [name for name in heard if int(name[2:]) % 2 == odd]
        assert ours == sorted(ours, key=lambda name: int(name[2:]))


async def test_an_ack_that_is_quicker_than_our_own_mark_stays(service: Running, node: PlayedNode) -> None:
    for number in range(30):
        await service.submit(f"c-{number}", channel=f"ch-{number}")
    for _ in range(30):
        cmd_id = (await node.next())["cmd_id"]
        await node.say(cmd_id, "ACK", channel=f"ch-{cmd_id[2:]}")
    for number in range(30):
        await service.reaches(f"c-{number}", "ACK")
    await asyncio.sleep(0)
    timeline = (await service.show("c-0"))["timeline"]
    assert [one["after"] for one in timeline if one["outcome"] == "moved"][-1] == "ACK"


async def test_without_a_broker_it_is_a_proved_failure_and_sent_with_the_same_id_later(
    settings_of: Callable[..., Settings],
) -> None:
    with mqtt() as broker:
        settings = settings_of(broker=broker.url)
        async with started(settings) as service:
            await eventually(lambda: _healthy(service, True))
            broker.kill()
            await eventually(lambda: _healthy(service, False))
            await service.submit("c-1")
            failed = await service.reaches("c-1", "SEND_FAILED")
            assert "no connection" in failed["error_message"]
            assert not failed["ended"]
            broker.restart()
            async with played(settings) as node:
                assert (await node.next(30))["cmd_id"] == "c-1"
            found = await service.reaches("c-1", "SENT")
            assert found["publish_state"] == "delivered"


async def _healthy(service: Running, wanted: bool) -> bool:
    answer = await service.client.get("/health")
    assert answer.status_code == (200 if answer.json()["healthy"] else 503)
    return bool(answer.json()["healthy"] == wanted)


async def test_a_broker_that_hangs_leaves_it_uncertain_and_it_goes_again_with_the_same_id(
    settings_of: Callable[..., Settings],
) -> None:
    """A PUBACK that does not come says nothing about the message."""
    with mqtt() as broker:
        settings = settings_of(broker=broker.url, puback=1.0)
        async with started(settings) as service:
            await eventually(lambda: _healthy(service, True))
            broker.pause()
            await service.submit("c-1")
            await eventually(lambda: _uncertain(service, "c-1"))
            broker.resume()
            async with played(settings) as node:
                found = await service.reaches("c-1", "SENT")
                assert found["publishes"] >= 2
                heard = await node.next()
                assert heard["cmd_id"] == "c-1"


async def _uncertain(service: Running, cmd_id: str) -> bool:
    found = await service.show(cmd_id)
    return bool(found["publish_state"] == "uncertain" and found["uncertain"])


async def test_an_uncertain_command_is_not_sent_again_to_a_node_that_has_rebooted(
    settings_of: Callable[..., Settings],
) -> None:
    """Its memory is gone: a second dose would be possible. A person can take it upon themselves."""
    with mqtt() as broker:
        settings = settings_of(broker=broker.url, puback=0.5)
        async with started(settings) as service:
            await eventually(lambda: _healthy(service, True))
            broker.pause()
            await service.submit("c-1")
            await eventually(lambda: _uncertain(service, "c-1"))
            service.service.presences.hear(NODE, "node_hello", b"{}", False)
            await service.service.presences.write()
            broker.resume()
            held = await eventually(lambda: _withdrawn(service, "c-1"))
            assert "forgotten" in held["why"]
            assert held["ended"] is False or held["status"] == "QUEUED"
            async with played(settings) as node:
                told = {"by": "ann", "reason": "the pump did not run"}
                assert (await service.client.post("/commands/c-1/resend", json=told)).status_code == 200
                assert (await node.next())["cmd_id"] == "c-1"
                found = await service.reaches("c-1", "SENT")
                assert found["overridden_by"] == "ann"


async def _withdrawn(service: Running, cmd_id: str) -> dict[str, object] | None:
    found = await service.show(cmd_id)
    return found if found["permit"] == "WITHDRAWN" else None


async def test_two_instances_publish_nothing_twice(settings_of: Callable[..., Settings]) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(started(settings_of(instance="one")))
        await stack.enter_async_context(started(settings_of(instance="two")))
        node = await stack.enter_async_context(played(one.settings))
        await asyncio.gather(*(one.submit(f"c-{number}", channel=f"ch-{number % 20}") for number in range(100)))
        heard = [(await node.next())["cmd_id"] for _ in range(100)]
        assert len(set(heard)) == 100

        async def all_sent() -> list[dict[str, Any]] | None:
            found = await one.client.get("/commands", params={"status": "SENT", "limit": 200})
            listed: list[dict[str, Any]] = found.json()["commands"]
            return listed if len(listed) == 100 else None

        assert {found["publishes"] for found in await eventually(all_sent)} == {1}
        assert node.heard.empty()


async def test_a_stop_clears_what_waits_in_its_channel_and_comes_first(
    settings_of: Callable[..., Settings],
) -> None:
    async with started(settings_of(parallel=1)) as service, played(service.settings) as node:
        await node.about("lwt", b"offline")
        await eventually(lambda: _offline(service))
        for number in range(5):
            await service.submit(f"c-{number}", cmd="run_pump", params={"duration_ms": 1000})
        await service.submit("other", channel="relay", cmd="set_relay", params={"state": True})
        stopped = (await service.submit("stop-1", cmd="stop", params={})).json()
        assert stopped["cleared"] == 5
        await node.about("heartbeat")
        assert [(await node.next())["cmd_id"] for _ in range(2)] == ["stop-1", "other"]
        for number in range(5):
            found = await service.show(f"c-{number}")
            assert (found["status"], found["ended"], found["why"]) == (
                "SEND_FAILED",
                True,
                "stopped by stop-1",
            )
        assert node.heard.empty()


async def _offline(service: Running) -> bool:
    found = (await service.client.get("/nodes")).json()["nodes"]
    return any(one["path"] == NODE and one["state"] == "OFFLINE" for one in found)


async def test_what_waits_too_long_ends(settings_of: Callable[..., Settings]) -> None:
    async with started(settings_of(answer=1.0)) as service:
        async with played(service.settings) as node:
            await node.about("lwt", b"offline")
            await eventually(lambda: _offline(service))
            await service.submit("c-1", valid_for=1)
            await service.submit("c-2", node="gh-1/zone-1/node-2", channel="pump")
            await node.next()
            waited = await service.reaches("c-1", "TIMEOUT")
            assert waited["ended"]
            await service.reaches("c-2", "TIMEOUT")
