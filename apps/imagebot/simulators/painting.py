"""Pictures for words: colours that depend on the description, as PNG, without any library."""

import hashlib
import struct
import zlib


def paint(prompt: str, size: int = 192, shape: tuple[int, int] = (1, 1)) -> bytes:
    """A picture of a sky and a hill, different for each description."""
    seed = hashlib.sha256(prompt.encode()).digest()
    wide, high = size, max(1, size * shape[1] // shape[0])
    if high > size:
        wide, high = max(1, size * shape[0] // shape[1]), size
    top, bottom, hill, sun = (seed[place : place + 3] for place in (0, 3, 6, 9))
    sun_x, sun_y, radius = wide * (40 + seed[12] % 50) // 100, high * (20 + seed[13] % 30) // 100, size // 9
    rows = bytearray()
    for y in range(high):
        share = y / high
        sky = bytes(int(a + (b - a) * share) for a, b in zip(top, bottom, strict=True))
        row = bytearray(sky * wide)
        reach = radius * radius - (y - sun_y) ** 2
        if reach > 0:
            half = int(reach**0.5)
            left, right = max(0, sun_x - half), min(wide, sun_x + half)
            row[3 * left : 3 * right] = sun * (right - left)
        if share > 0.6:
            begins = int(wide * (1 - share) * (seed[14] % 3 + 0.4))
            ends = min(wide, wide - begins // 2)
            row[3 * begins : 3 * ends] = hill * max(0, ends - begins)
        rows += b"\0" + row
    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, parts))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, body = part
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
