"""Where requests and replies begin and end on the wire, for PostgreSQL and for Redis; no I/O.

Bytes go in as they arrive, however they are cut; whole frames come out, with the little that a proxy has to know.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

_LEADING_COMMENTS = re.compile(rb"(\s|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(rb"\w*")


class Frame(NamedTuple):
    """One message."""

    data: bytes
    command: str | None = None
    """Request: the first word of its text. Reply: the first word of what was done."""
    runs: bool = False
    """Request: it makes the server do something, and answer."""
    done: bool = False
    """Reply: something was done, without an error."""
    last: bool = False
    """Reply: no more will come until the client sends something."""
    awaited: bool = False
    """Reply: the client will not go on without it."""
    refusal: bytes = b""
    """Request: for encryption, through which nothing could be seen; to be answered so, and not passed on."""


class Wire(Protocol):
    """One connection, seen from the middle."""

    def requests(self, data: bytes) -> Iterator[Frame]:
        """Frames from the client."""

    def replies(self, data: bytes) -> Iterator[Frame]:
        """Frames from the server."""


class PostgresWire:
    """PostgreSQL's protocol 3. Not promised: a client that uses Flush to see a reply before it sends Sync."""

    _ENCRYPTION = (80877103, 80877104)
    _CANCEL = 80877102

    def __init__(self) -> None:
        self._from_client = bytearray()
        self._from_server = bytearray()
        self._started = False
        self._expected = 0  # ReadyForQuery that will come
        self._statements: dict[bytes, str] = {}
        self._bound = ""

    def requests(self, data: bytes) -> Iterator[Frame]:
        self._from_client += data
        while not self._started and (frame := _take_postgres(self._from_client, typed=False)):
            yield self._opening(frame)
        while self._started and (frame := _take_postgres(self._from_client)):
            yield self._request(frame)

    def replies(self, data: bytes) -> Iterator[Frame]:
        self._from_server += data
        while frame := _take_postgres(self._from_server):
            match frame[:1]:
                case b"C":  # CommandComplete
                    yield Frame(frame, command=_first_word(frame[5:]), done=True)
                case b"s":  # PortalSuspended: asyncpg's fetchrow asks for one row, and then there is no CommandComplete
                    yield Frame(frame, command=self._bound, done=True)
                case b"Z":  # ReadyForQuery
                    self._expected -= 1
                    yield Frame(frame, last=self._expected == 0)
                case b"G":  # CopyInResponse
                    yield Frame(frame, awaited=True)
                case _:
                    yield Frame(frame)

    def _opening(self, frame: bytes) -> Frame:
        code = int.from_bytes(frame[4:8])
        if code in self._ENCRYPTION:
            return Frame(frame, refusal=b"N")
        if code != self._CANCEL:
            self._started = True
            self._expected = 1
        return Frame(frame)

    def _request(self, frame: bytes) -> Frame:
        match frame[:1]:
            case b"Q":  # Query
                self._expected += 1
                return Frame(frame, command=_first_word(frame[5:]), runs=True)
            case b"P":  # Parse
                name, text = frame[5:].split(b"\0")[:2]
                self._statements[name] = _first_word(text)
                return Frame(frame, command=self._statements[name])
            case b"B":  # Bind
                name = frame[5:].split(b"\0")[1]
                self._bound = self._statements.get(name, "")
                return Frame(frame, command=self._bound)
            case b"E":  # Execute
                return Frame(frame, runs=True)
            case b"S":  # Sync
                self._expected += 1
                return Frame(frame)
            case _:
                return Frame(frame)


class RedisWire:
    """RESP 2 and 3. Not promised: RESP 2 subscriptions and CLIENT REPLY OFF, where replies do not follow requests."""

    def __init__(self) -> None:
        self._from_client = bytearray()
        self._from_server = bytearray()
        self._waiting: deque[str] = deque()

    def requests(self, data: bytes) -> Iterator[Frame]:
        self._from_client += data
        while frame := _take_redis(self._from_client):
            words = frame.split(b"\r\n", 3)
            word = words[2] if frame.startswith(b"*") else words[0]  # *2 $3 GET …, or just a line
            self._waiting.append(_first_word(word))
            yield Frame(frame, command=self._waiting[-1], runs=True)

    def replies(self, data: bytes) -> Iterator[Frame]:
        self._from_server += data
        while frame := _take_redis(self._from_server):
            if frame.startswith(b">") or not self._waiting:  # pushed, not asked for
                yield Frame(frame)
            else:
                command = self._waiting.popleft()
                done = not frame.startswith((b"-", b"!"))
                yield Frame(frame, command=command, done=done, last=not self._waiting)


def _first_word(text: bytes) -> str:
    """The first word of SQL, of a command or of a command tag, in capitals."""
    start = _LEADING_COMMENTS.match(text)
    word = _WORD.match(text, start.end() if start else 0)
    return word[0].decode(errors="replace").upper() if word else ""


def _take_postgres(buffer: bytearray, *, typed: bool = True) -> bytes:
    """Take one message off the buffer: a type, but for the very first ones, and a length that counts itself."""
    if len(buffer) < typed + 4:
        return b""
    size = typed + int.from_bytes(buffer[typed : typed + 4])
    return _take(buffer, size)


def _take_redis(buffer: bytearray) -> bytes:
    """Take one value off the buffer."""
    return _take(buffer, _redis_end(buffer, 0))


def _take(buffer: bytearray, size: int) -> bytes:
    if not 0 < size <= len(buffer):
        return b""
    frame = bytes(buffer[:size])
    del buffer[:size]
    return frame


def _redis_end(data: bytearray, start: int) -> int:
    """Where the value that begins here ends, or 0 if it is not all there."""
    line_end = data.find(b"\r\n", start)
    if line_end < 0:
        return 0
    kind, head, end = data[start : start + 1], data[start + 1 : line_end], line_end + 2
    if kind in b"$=!":  # a length and so many bytes; -1 for none
        size = int(head)
        return end if size < 0 else end + size + 2 if end + size + 2 <= len(data) else 0
    if kind in b"*~>%|":  # a number of values; of pairs in maps and attributes, and those belong to the value after
        for _ in range(int(head) * (2 if kind in b"%|" else 1) + (kind == b"|")):
            end = _redis_end(data, end)
            if not end:
                return 0
    return end
