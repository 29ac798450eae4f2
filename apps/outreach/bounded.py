"""Reading what others send: bounded before it is decompressed and after, one layer of compression at most."""

import zlib

import httpx


class TooLarge(Exception):
    """It is larger than allowed, or packed in a way that cannot be bounded."""


async def read_bounded(answer: httpx.Response, most: int) -> bytes:
    """The body of an answer that was asked for as a stream."""
    coding = answer.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise TooLarge(f"it is packed as {coding[:40]!r}, which was not asked for")
    raw = bytearray()
    async for part in answer.aiter_raw():
        raw += part
        if len(raw) > most:
            raise TooLarge(f"it is larger than {most} bytes")
    return bytes(raw) if coding in ("", "identity") else unpacked(bytes(raw), most)


def unpacked(packed: bytes, most: int) -> bytes:
    """One layer of gzip or deflate; never more than `most` bytes are made of it."""
    # 32: gzip or zlib, by its header; raw deflate has none
    for window in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):
        unpacking = zlib.decompressobj(window)
        try:
            body = unpacking.decompress(packed, most + 1)
        except zlib.error:
            continue
        if len(body) > most:
            raise TooLarge(f"unpacked it is larger than {most} bytes")
        if not unpacking.eof:
            raise TooLarge("it is packed, and breaks off")
        return body
    raise TooLarge("it cannot be unpacked")


def is_packed(body: bytes) -> bool:
    """gzip, zstd, bzip2, xz or zip: no document of text begins so."""
    return body.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04"))
