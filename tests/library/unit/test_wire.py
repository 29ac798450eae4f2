"""Frames come out whole and in order, however the bytes were cut on their way."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raceproof.testing.wire import Frame, PostgresWire, RedisWire, Wire


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of PostgreSQL."""
    return kind + (len(body) + 4).to_bytes(4) + body


ENCRYPTION = (8).to_bytes(4) + (80877103).to_bytes(4)
STARTUP = (14).to_bytes(4) + (196608).to_bytes(4) + b"user\0\0"

POSTGRES_REQUESTS = [
    Frame(ENCRYPTION, refusal=b"N"),
    Frame(STARTUP),
    Frame(message(b"P", b"one\0 -- a comment\n /* and\nmore */ update t\0\0\0"), command="UPDATE"),
    Frame(message(b"B", b"\0one\0\0\0\0\0\0\0"), command="UPDATE"),
    Frame(message(b"E", b"\0\0\0\0\0"), runs=True),
    Frame(message(b"S")),
    Frame(message(b"Q", b"COMMIT;\0"), command="COMMIT", runs=True),
    Frame(message(b"X")),
]
POSTGRES_REPLIES = [
    Frame(message(b"R", b"\0\0\0\0")),
    Frame(message(b"Z", b"I")),
    Frame(message(b"2")),
    Frame(message(b"C", b"UPDATE 1\0"), command="UPDATE", done=True),
    Frame(message(b"Z", b"T")),
    Frame(message(b"G", b"\0\0\0"), awaited=True),
    Frame(message(b"s"), command="UPDATE", done=True),
    Frame(message(b"Z", b"I"), last=True),
]

REDIS_REQUESTS = [
    Frame(b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$4\r\n\r\n\r\n\r\n", command="SET", runs=True),
    Frame(b"PING\r\n", command="PING", runs=True),
    Frame(b"*1\r\n$4\r\nEXEC\r\n", command="EXEC", runs=True),
    Frame(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", command="GET", runs=True),
]
REDIS_REPLIES = [
    Frame(b"+OK\r\n", command="SET", done=True),
    Frame(b">2\r\n+message\r\n$-1\r\n"),
    Frame(b"-ERR no\r\n", command="PING"),
    Frame(b"*2\r\n:1\r\n%1\r\n+a\r\n*0\r\n", command="EXEC", done=True),
    Frame(b"|1\r\n+ttl\r\n:9\r\n$2\r\n\r\n\r\n", command="GET", done=True, last=True),
]


@pytest.mark.parametrize(
    ("wire_type", "requests", "replies"),
    [(PostgresWire, POSTGRES_REQUESTS, POSTGRES_REPLIES), (RedisWire, REDIS_REQUESTS, REDIS_REPLIES)],
    ids=["postgres", "redis"],
)
@given(data=st.data())
def test_frames_do_not_depend_on_how_bytes_arrive(
    wire_type: type[Wire], requests: list[Frame], replies: list[Frame], data: st.DataObject
) -> None:
    """Cut anywhere, even within a length, the same frames come out, and nothing is left over."""
    wire = wire_type()

    def pieces(frames: list[Frame]) -> list[bytes]:
        whole = b"".join(frame.data for frame in frames)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)) | {0, len(whole)})
        return [whole[start:end] for start, end in pairwise(cuts)]

    assert [frame for piece in pieces(requests) for frame in wire.requests(piece)] == requests
    assert [frame for piece in pieces(replies) for frame in wire.replies(piece)] == replies
