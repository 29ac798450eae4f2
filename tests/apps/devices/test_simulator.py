"""Simulated nodes behave as the real ones do: signatures, the window of ten seconds, and a memory that a reboot empties."""

import asyncio
import json
import time
from typing import Any

import pytest

from devices.messages import Topics, signature, signed_command
from devices.simulator import REMEMBERED, Node, Trouble, paths
from raceproof.webhooks import Secret

SECRET = Secret("a secret of at least sixteen")
QUIET = Trouble(skip_ack=0, delay=0, work=0)
TOPIC = Topics().command("gh/z/n", "pump")


def made(trouble: Trouble = QUIET) -> tuple[Node, list[dict[str, Any]]]:
    node = Node("gh/z/n", Topics(), SECRET, trouble)
    said: list[dict[str, Any]] = []
    node.said = lambda topic, payload: said.append({"topic": topic, **_read(payload)})
    return node, said


def _read(payload: bytes) -> dict[str, Any]:
    return json.loads(payload) if payload.startswith(b"{") else {"text": payload}


def command(
    cmd_id: str = "c-1",
    ts: int | None = None,
    secret: Secret = SECRET,
    cmd: str = "dose",
    node: str = "gh/z/n",
    channel: str = "pump",
) -> bytes:
    at = int(time.time()) if ts is None else ts
    return signed_command(secret, node, channel, cmd_id, cmd, {"ml": 5}, at)


def of_version_1() -> bytes:
    message: dict[str, Any] = {"cmd_id": "c-1", "cmd": "dose", "params": {"ml": 5}, "ts": int(time.time())}
    return json.dumps({**message, "sig": signature(SECRET, message)}).encode()


async def test_a_signed_command_is_acknowledged_and_done() -> None:
    node, said = made()
    await node.take(TOPIC, command())
    assert [one["status"] for one in said] == ["ACK", "DONE"]
    assert said[0]["topic"] == Topics().response("gh/z/n", "pump")
    assert node.executed.times == {"c-1": 1}


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (command(secret=Secret("another secret of some length")), "invalid_signature"),
        (command(ts=int(time.time()) - 60), "timestamp_expired"),
        (command(node="gh/z/other"), "wrong_target"),
        (command(channel="relay"), "wrong_target"),
        (command().replace(b'"pump"', b'"relay"'), "invalid_signature"),
        (of_version_1(), "unsupported_version"),
        (b"garbage", "invalid_format"),
        (b"{}", "invalid_format"),
        (b'{"cmd_id": "c-1", "cmd": "dose"}', "missing_fields"),
    ],
)
async def test_what_is_not_right_is_refused_with_an_error(payload: bytes, problem: str) -> None:
    node, said = made()
    await node.take(TOPIC, payload)
    assert [(one["status"], one["error_code"]) for one in said] == [("ERROR", problem)]
    assert not node.executed.times


async def test_the_same_id_is_executed_once_while_it_is_remembered() -> None:
    node, said = made()
    for _ in range(3):
        await node.take(TOPIC, command())
    assert node.executed.times == {"c-1": 1}
    assert [one["status"] for one in said] == ["ACK", "DONE", "DONE", "DONE"]


async def test_what_was_executed_is_known_also_when_it_comes_again_after_the_window() -> None:
    """QoS 1: the broker may deliver late what it has delivered before."""
    node, said = made()
    now = int(time.time())
    await node.take(TOPIC, command(ts=now))
    await node.take(TOPIC, command(ts=now - 60))
    assert [one["status"] for one in said] == ["ACK", "DONE", "DONE"]


async def test_a_reboot_and_too_many_others_make_it_forget() -> None:
    node, _ = made()
    await node.take(TOPIC, command())
    await node.reboot()
    node.offline_until = 0
    await node.take(TOPIC, command())
    assert node.executed.times["c-1"] == 2
    for number in range(REMEMBERED):
        await node.take(TOPIC, command(f"other-{number}"))
    await node.take(TOPIC, command())
    assert node.executed.times["c-1"] == 3


async def test_a_command_that_is_being_executed_is_not_begun_again() -> None:
    node, _ = made(Trouble(skip_ack=0, delay=0, work=0.05))
    await asyncio.gather(*(node.take(TOPIC, command()) for _ in range(5)))
    assert node.executed.times == {"c-1": 1}


async def test_trouble_does_what_it_says() -> None:
    for trouble, expected in (
        (Trouble(drop=1, delay=0, work=0), []),
        (Trouble(duplicate=1, skip_ack=1, delay=0, work=0), ["DONE", "DONE"]),
        (Trouble(reorder=1, delay=0, work=0), ["DONE", "ACK"]),
        (Trouble(overcurrent=1, skip_ack=1, delay=0, work=0), ["ERROR"]),
    ):
        node, said = made(trouble)
        await node.take(TOPIC, command())
        assert [one["status"] for one in said] == expected


def test_trouble_is_written_as_text() -> None:
    assert Trouble.parsed("drop=0.5,reboot=0.1") == Trouble(drop=0.5, reboot=0.1)
    assert Trouble.parsed("storm").drop > 0
    with pytest.raises(ValueError, match="earthquake"):
        Trouble.parsed("earthquake=1")


def test_nodes_have_paths_of_their_own() -> None:
    assert len(set(paths(200))) == 200
