"""What the user of an attempt sees of it: where it stands, the code to scan, whether a password is asked for."""

import asyncio
import contextlib
import io
import json
import time
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any, Literal

import segno

from qrlogin.beside import seconds_of
from qrlogin.identity import SessionId
from qrlogin.lifecycle import ENDED, Status
from qrlogin.manager import SOON
from qrlogin.places import Places

POLL = 0.3
CALM = 0.002
"""Seconds that each follower of this process adds to the time between two looks, so that a crowd does not look all day."""
CLOSELY = 1.5
"""Seconds after which also that is looked at which lies beside a row that has not changed."""
SILENCE = 15.0
"""Seconds after which a follower gets a sign of life."""
COLOURS = {"light": ("#10243a", "#ffffff"), "dark": ("#0b1220", "#dfe7f2")}
"""Dark on light in both: scanners do not read it the other way round."""


async def seen(places: Places, session_id: SessionId) -> dict[str, Any] | None:
    """One look, without secrets; the code itself is asked for by `code_url`."""
    row = await places.row(session_id)
    return None if row is None else await _seen_in(places, session_id, row)


async def _seen_in(places: Places, session_id: SessionId, row: dict[str, Any]) -> dict[str, Any]:
    status = Status(row["status"])
    age = time.time() - (seconds_of(row["created_at"]) or 0)
    told: dict[str, Any] = {
        "session_id": str(session_id),
        "status": status,
        "ended": status in ENDED,
        "reason": row.get("reason"),
        "seconds_left": max(0, round(int(row["ttl_seconds"]) - age)) if status not in ENDED else 0,
        "code": None,
        "password": None,
    }
    if status is Status.PENDING and not row.get("claimed_by") and age > SOON:
        await places.beside.announce(session_id)  # whoever started it may have died before it did
    shown = await _shown(places, session_id, row)
    if "url" in shown and status is Status.QR_RENDERED:
        left = max(0, round(shown["expires"] - time.time()))
        told["code"] = {"version": shown["version"], "seconds_left": left}
    if "password" in shown and status is Status.SCANNED:
        told["password"] = shown["password"]
    return told


async def follow(
    places: Places, session_id: SessionId, closing: asyncio.Event, once: bool = False
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """What is to be seen whenever it is something else, until the attempt has ended."""
    async with _Following(closing) as following:
        async for one in _changes(places, session_id, once, following):
            yield one


class _Following:
    """One who follows; counts how many there are in this process."""

    number = 0

    def __init__(self, closing: asyncio.Event) -> None:
        self.closing = closing

    async def __aenter__(self) -> "_Following":
        _Following.number += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        _Following.number -= 1

    async def rest(self) -> None:
        """Until the next look, or until the process ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL + CALM * _Following.number):
                await self.closing.wait()


async def _changes(
    places: Places, session_id: SessionId, once: bool, following: _Following
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    before: Any = None
    known: Any = None
    looked = silent = time.monotonic()
    number = 0
    while True:
        row = await places.row(session_id)
        if row is None:
            yield "gone", {"status": "gone", "ended": True}
            return
        stands = row["status"], row.get("fence")
        calm = stands == known and stands[0] != Status.SCANNED and not following.closing.is_set()
        if calm and time.monotonic() - looked < CLOSELY:
            await following.rest()  # what is shown changes rarely while the row does not
            continue
        known, looked = stands, time.monotonic()
        told = await _seen_in(places, session_id, row)
        now = [told["status"], told["reason"], (told["code"] or {}).get("version"), told["password"]]
        if now != before:
            before, silent, number = now, time.monotonic(), number + 1
            yield str(number), told
        elif time.monotonic() - silent > SILENCE:
            silent = time.monotonic()
            yield "", {}
        if told["ended"] or once or following.closing.is_set():
            return
        await following.rest()


async def code_url(places: Places, session_id: SessionId) -> str | None:
    """What is to be scanned now: whoever scans it lets this attempt in."""
    row = await places.row(session_id)
    if row is None or row["status"] != Status.QR_RENDERED:
        return None
    url = (await _shown(places, session_id, row)).get("url")
    return None if url is None else str(url)


@lru_cache(maxsize=512)
def drawn(url: str, kind: Literal["svg", "png"], theme: str = "light") -> bytes:
    """A code as a picture."""
    dark, light = COLOURS[theme]
    made = io.BytesIO()
    options: dict[str, Any] = {"xmldecl": False, "omitsize": True} if kind == "svg" else {}
    segno.make(url, error="m", micro=False).save(made, kind=kind, scale=8, border=3, dark=dark, light=light, **options)
    return made.getvalue()


async def _shown(places: Places, session_id: SessionId, row: dict[str, Any]) -> dict[str, Any]:
    """What the present holder shows; what a former one still shows is not looked at."""
    if not row.get("fence") or not row.get("claimed_by"):
        return {}
    sealed = await places.beside.shown(session_id, int(row["fence"]))
    if sealed is None:
        return {}
    told: dict[str, Any] = json.loads(places.vault.open(f"shown {session_id}", sealed))
    return told
