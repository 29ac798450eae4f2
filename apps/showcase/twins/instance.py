"""A process of one side: it runs all scenarios with that side's code, as an instance of an application would."""

import asyncio
import contextlib
import logging
import sqlite3
from pathlib import Path
from typing import Any

from appkit import commands as kit
from raceproof import connect
from showcase.twins.desk import BUSY, Desk
from showcase.twins.every import SCENARIOS
from showcase.twins.line import Line
from showcase.twins.scenario import Code

log = logging.getLogger("showcase.twin")

PAUSE = {"pictures": 0.9, "leaders": 0.1, "jobs": 0.25, "webhooks": 0.15}
"""Seconds between two turns; the others have none."""


async def run(side: str, name: str, folder: Path) -> int:
    """Until SIGTERM, or until the world is gone."""
    stop = kit.stop_event()
    codes: dict[str, Code] = {}

    async def heard(what: str, told: dict[str, Any]) -> dict[str, Any] | None:
        try:
            return await codes[what].hear(told)
        except (sqlite3.Error, ConnectionError) as error:
            log.warning("%s %s: %s: %s", what, told, type(error).__name__, error)
            return {"status": 500}

    line = Line(*await asyncio.open_unix_connection(folder / "world"), heard)
    listening = asyncio.create_task(line.run())
    database = folder / f"{side}.db"
    async with connect(f"sqlite:///{database}", timeout=BUSY) as db:
        desk = Desk(name, database, db, line.ask, line.tell)
        codes |= {one.name: one.code(side)(desk) for one in SCENARIOS.values()}
        await line.tell("here", side=side, name=name)
        turning = [asyncio.create_task(_turning(codes[each], pause)) for each, pause in PAUSE.items()]
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([stopping, listening, *turning], return_when=asyncio.FIRST_COMPLETED)
        for task in turning:
            task.cancel()
        ends = await asyncio.gather(*turning, return_exceptions=True)
        for code in codes.values():
            with contextlib.suppress(sqlite3.Error):
                await code.close()
        listening.cancel()
    for end in ends:
        if not isinstance(end, asyncio.CancelledError):
            log.error("a scenario has ended", exc_info=end)
            return kit.ERROR
    return kit.OK


async def _turning(code: Code, pause: float) -> None:
    """Turn after turn; an error ends one turn, as it does in most programs."""
    while True:
        try:
            await code.turn()
        except (sqlite3.Error, ConnectionError) as error:
            log.warning("%s: %s: %s", type(code).__module__, type(error).__name__, error)
        await asyncio.sleep(pause)
