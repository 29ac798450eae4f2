"""What goes over the line: a length, a kind, who is meant, a number, the sender's clock, and an object in Telegram's TL."""

import asyncio
import struct
import time
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from qrlogin.tl import BinaryReader

_HEAD = struct.Struct(">IBQId")
MOST = 1024 * 1024


class Kind(IntEnum):
    REQUEST = 0
    ANSWER = 1
    UPDATE = 2
    INTRODUCTION = 3
    """JSON, not TL: a phone says whose it is."""


@dataclass(frozen=True, slots=True)
class Frame:
    """`auth` is whose request, answer or update it is; an answer has the number of its request."""

    kind: Kind
    auth: int
    number: int
    body: bytes
    at: float = field(default_factory=time.time)
    """By the clock of the sender, as message ids of Telegram's have it."""

    @property
    def told(self) -> Any:
        """The object in it."""
        return BinaryReader(self.body).tgread_object()


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    length, kind, auth, number, at = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if length > MOST:
        raise ConnectionError("a frame that is too long")
    return Frame(Kind(kind), auth, number, await reader.readexactly(length), at)


def write_frame(writer: asyncio.StreamWriter, frame: Frame) -> None:
    head = _HEAD.pack(len(frame.body), frame.kind, frame.auth, frame.number, frame.at)
    writer.write(head + frame.body)
