"""What nodes say: in any order, twice, late, forged, garbage."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.lifecycle import Command, publish
from devices.messages import Malformed, Topics, read_response
from raceproof import SendPermit
from tests.apps.devices.conftest import NODE, PlayedNode, Running, eventually


async def test_acknowledged_then_done(service: Running, node: PlayedNode) -> None:
    await service.submit("c-1")
    await node.next()
    await node.say("c-1", "ACK")
    await service.reaches("c-1", "ACK")
    await node.say("c-1", "DONE", details={"duration_ms": 730, "result_code": 0})
    found = await service.reaches("c-1", "DONE")
    assert (found["duration_ms"], found["result_code"], found["ended"]) == (730, 0, True)
    assert [one["outcome"] for one in found["evidence"]] == ["moved", "moved"]


async def test_responses_in_any_order_and_twice_end_the_same(service: Running, node: PlayedNode) -> None:
    await service.submit("c-1")
    await node.next()
    for _ in range(2):
        await node.say("c-1", "DONE", details={"duration_ms": 1}, ts=17)
    await node.say("c-1", "ACK")
    await node.say("c-1", "ERROR", error_code="overcurrent", error_message="too much")

    async def all_heard() -> dict[str, Any] | None:
        found = await service.show("c-1")
        return found if len(found["evidence"]) >= 3 else None

    found = await eventually(all_heard)
    assert found["status"] == "DONE"
    assert sorted(one["outcome"] for one in found["evidence"]) == ["late", "late", "moved"]


async def test_each_terminal_status_is_taken_without_an_ack(service: Running, node: PlayedNode) -> None:
    for status in ("DONE", "NO_EFFECT", "ERROR", "INVALID", "BUSY", "TIMEOUT"):
        await service.submit(f"c-{status}", channel=f"ch-{status}")
        await node.next()
        await node.say(f"c-{status}", status, channel=f"ch-{status}", error_code="e-1", error_message="why")
        await service.reaches(f"c-{status}", status)


async def test_evidence_after_a_timeout_is_kept_and_shown(service: Running, node: PlayedNode) -> None:
    """D5: a second dose is worse than a late answer."""
    await service.submit("c-1")
    await node.next()
    await service.reaches("c-1", "SENT")
    (await service.service.database.store.move(Command.timeout, "c-1")).must()
    await node.say("c-1", "DONE")

    async def late() -> dict[str, Any] | None:
        found = await service.show("c-1")
        return found if found["late"] else None

    found = await eventually(late)
    assert (found["status"], found["late"]) == ("TIMEOUT", "DONE")
    assert "late evidence" in (await service.client.get("/command/c-1")).text


async def test_evidence_keeps_a_failed_send_from_being_sent_again(service: Running, node: PlayedNode) -> None:
    """DONE after SEND_FAILED: the node has executed it, whatever the broker said."""
    await node.about("lwt", b"offline")
    await asyncio.sleep(0)
    store = service.service.database.store
    service.service.presences.hear(NODE, "lwt", b"offline", False)
    await service.service.presences.write()
    await service.submit("c-1")
    (await store.move(Command.send_failed, "c-1", set={"error_message": "no route"})).must()
    await node.say("c-1", "DONE")

    async def withdrawn() -> dict[str, Any] | None:
        found = await service.show("c-1")
        return found if found["permit"] == "WITHDRAWN" else None

    found = await eventually(withdrawn)
    assert (found["status"], found["why"], found["late"]) == ("SEND_FAILED", "the node says DONE", "DONE")
    await node.about("heartbeat")
    await service.submit("c-2", channel="pump")
    assert (await node.next())["cmd_id"] == "c-2"
    assert node.heard.empty()


@pytest.mark.parametrize("marked", [False, True])
async def test_an_answer_to_a_repeated_send_counts_although_it_is_quicker_than_our_mark(
    service: Running, node: PlayedNode, marked: bool
) -> None:
    """It was late evidence; then the command was marked as sent, and timed out although its node had answered."""
    store = service.service.database.store
    service.service.presences.hear(NODE, "lwt", b"offline", False)
    await service.service.presences.write()
    await service.submit("c-1")
    (await store.move(Command.send_failed, "c-1", set={"error_message": "no route"})).must()
    permit = await store.begin_delivery(publish, "c-1", by="a dispatcher")
    assert isinstance(permit, SendPermit)
    if marked:
        await store.delivered(permit)
    await node.say("c-1", "DONE")
    found = await service.reaches("c-1", "DONE")
    assert (found["permit"], found["late"]) == ("ALLOWED", None)
    assert (await store.move(Command.sent, "c-1")).outcome == "refused"


async def test_a_forged_response_changes_nothing(service: Running, node: PlayedNode) -> None:
    """Only the node and channel that were asked may answer."""
    await service.submit("c-1")
    await node.next()
    await service.reaches("c-1", "SENT")
    await node.say("c-1", "DONE", node="gh-1/zone-1/node-9")
    await node.say("c-1", "DONE", channel="relay")
    await node.say("nobody", "DONE")
    refused = await eventually(lambda: _refused(service, 3))
    assert {one["why"] for one in refused} == {"another node was asked", "no such command was sent"}
    assert (await service.show("c-1"))["status"] == "SENT"


async def test_garbage_is_refused_with_a_reason_and_harms_nobody(service: Running, node: PlayedNode) -> None:
    await service.submit("c-1")
    await node.next()
    topic = service.topics.response(NODE, "pump")
    garbage = [
        b"",
        b"\xff\xfe",
        b"null",
        b"{}",
        b'{"cmd_id": "c-1", "status": "DONE"}',
        b'{"cmd_id": "c-1", "status": "EXPLODED", "ts": 1}',
        b'{"cmd_id": "../c-1", "status": "DONE", "ts": 1}',
        b'{"cmd_id": "c-1", "status": "DONE", "ts": NaN}',
        b'{"cmd_id": "c-1", "status": "DONE", "ts": 1, "ts": 2}',
        b"[" * 2000,
    ]
    for body in garbage:
        await node.raw(topic, body)
    refused = await eventually(lambda: _refused(service, len(garbage)))
    assert all(one["why"] for one in refused)
    await node.say("c-1", "DONE")
    await service.reaches("c-1", "DONE")
    assert (await service.client.get("/health")).status_code == 200


async def _refused(service: Running, number: int) -> list[dict[str, Any]] | None:
    found: list[dict[str, Any]] = (await service.client.get("/refused")).json()["refused"]
    return found if len(found) >= number else None


@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_any_bytes_are_a_response_or_malformed(body: bytes) -> None:
    try:
        read = read_response(body)
    except Malformed:
        return
    assert read.cmd_id


@given(
    st.dictionaries(
        st.sampled_from(["cmd_id", "status", "ts", "details", "error_code", "other"]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("DONE") | st.lists(st.integers()),
    )
)
def test_any_object_is_a_response_or_malformed(message: dict[str, Any]) -> None:
    try:
        read = read_response(json.dumps(message).encode())
    except Malformed:
        return
    assert (read.status, read.duration_ms) == (message["status"], None)


@given(st.text(max_size=60))
def test_any_topic_is_parsed_or_malformed(topic: str) -> None:
    try:
        node, _, _ = Topics().parse(topic)
    except Malformed:
        return
    assert node.count("/") == 2
