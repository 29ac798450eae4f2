"""What goes over MQTT: topics, signed commands, and what nodes say.

Everything that comes in is untrusted: a message that is not as it should be is a `Malformed` with the reason, and never
more than that.
"""

import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import Any

from raceproof.webhooks import BadJson, Secret, parse

VERSION = 2
"""Of signed commands. Version 1, without `v`, named neither node nor channel; a node of version 2 refuses it."""
WINDOW = 10
"""Seconds around its `ts` within which a node takes a command."""
RESPONSES = ("ACK", "DONE", "ERROR", "INVALID", "BUSY", "NO_EFFECT", "TIMEOUT")
CMD_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")
SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
LONGEST = 64 * 1024


class Malformed(ValueError):
    """A message that cannot be taken; says why."""


@dataclass(frozen=True, slots=True)
class Topics:
    """`{prefix}/{greenhouse}/{zone}/{node}/{channel}/command` and the like. A node's path is `greenhouse/zone/node`."""

    prefix: str = "hydro"

    def command(self, node: str, channel: str) -> str:
        return f"{self.prefix}/{node}/{channel}/command"

    def response(self, node: str, channel: str) -> str:
        return f"{self.prefix}/{node}/{channel}/command_response"

    def about(self, node: str, kind: str) -> str:
        """Node level: status, lwt, heartbeat, node_hello."""
        return f"{self.prefix}/{node}/{kind}"

    @property
    def kept(self) -> list[str]:
        """What may not be lost: the broker keeps it while the service is away."""
        return [
            f"{self.prefix}/+/+/+/+/command_response",
            *(f"{self.prefix}/+/+/+/{kind}" for kind in ("lwt", "node_hello")),
        ]

    @property
    def passing(self) -> list[str]:
        """What is repeated or retained, so that one that is missed does no harm."""
        return [f"{self.prefix}/+/+/+/{kind}" for kind in ("heartbeat", "status")]

    def parse(self, topic: str) -> tuple[str, str | None, str]:
        """(node, channel or None, kind) of a topic."""
        parts = topic.removeprefix(self.prefix + "/").split("/")
        if not topic.startswith(self.prefix + "/") or len(parts) not in (4, 5):
            raise Malformed(f"the topic is not below {self.prefix}/greenhouse/zone/node")
        return "/".join(parts[:3]), parts[3] if len(parts) == 5 else None, parts[-1]


def canonical(message: dict[str, Any]) -> bytes:
    """The bytes that are signed: sorted keys, no spaces, without `sig`."""
    unsigned = {name: value for name, value in message.items() if name != "sig"}
    return json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def signature(secret: Secret, message: dict[str, Any]) -> str:
    return hmac.new(secret.reveal_bytes(), canonical(message), hashlib.sha256).hexdigest()


def signed_command(
    secret: Secret, node: str, channel: str, cmd_id: str, cmd: str, params: dict[str, Any], ts: int
) -> bytes:
    """A command as a node expects it; `ts` in seconds. Node and channel are signed, so that it is of use to no other."""
    message: dict[str, Any] = {"v": VERSION, "node": node, "channel": channel}
    message |= {"cmd_id": cmd_id, "cmd": cmd, "params": params, "ts": ts}
    return json.dumps(
        {**message, "sig": signature(secret, message)}, separators=(",", ":"), ensure_ascii=False
    ).encode()


@dataclass(frozen=True, slots=True)
class Response:
    """What a node says about a command; `ts` in milliseconds."""

    cmd_id: str
    status: str
    ts: int
    details: Any = None
    error_code: str | None = None
    error_message: str | None = None

    @property
    def duration_ms(self) -> int | None:
        return self._detail("duration_ms")

    @property
    def result_code(self) -> int | None:
        return self._detail("result_code")

    def _detail(self, name: str) -> int | None:
        value = self.details.get(name) if isinstance(self.details, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_response(body: bytes) -> Response:
    """A response, or `Malformed`."""
    if len(body) > LONGEST:
        raise Malformed(f"it has {len(body)} bytes, more than {LONGEST}")
    try:
        message = parse(body)
    except BadJson as error:
        raise Malformed(str(error)) from None
    if not isinstance(message, dict):
        raise Malformed("the message must be a JSON object")
    cmd_id, status, ts = message.get("cmd_id"), message.get("status"), message.get("ts")
    if not isinstance(cmd_id, str) or not CMD_ID.match(cmd_id):
        raise Malformed("cmd_id must have 1 to 64 letters, digits and _ . : -")
    if status not in RESPONSES:
        raise Malformed(f"status must be one of {', '.join(RESPONSES)}")
    if not isinstance(ts, int) or isinstance(ts, bool):
        raise Malformed("ts must be an integer")
    return Response(
        cmd_id,
        status,
        ts,
        message.get("details"),
        _text(message, "error_code"),
        _text(message, "error_message"),
    )


def _text(message: dict[str, Any], name: str) -> str | None:
    value = message.get(name)
    return None if value is None else str(value)[:1000]
