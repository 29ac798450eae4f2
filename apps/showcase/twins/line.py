"""A line between two processes: each can ask the other, and say something that needs no answer. One JSON text a line."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

Heard = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Called with what is said and the rest of it; what it returns is the answer, for whoever waits for one."""


class Line:
    """One end of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Heard) -> None:
        self._reader = reader
        self._writer = writer
        self._heard = heard
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, what: str, /, **told: Any) -> dict[str, Any]:
        """Say something and wait for the answer."""
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._write({"what": what, "number": number, "told": told})
            return await future
        finally:
            del self._waiting[number]

    async def tell(self, what: str, /, **told: Any) -> None:
        """Say something."""
        self._write({"what": what, "told": told})

    async def run(self) -> None:
        """Until the other end is gone."""
        try:
            while said := await self._reader.readline():
                told = json.loads(said)
                if "answer" in told:
                    future = self._waiting.get(told["number"])
                    if future and not future.done():
                        future.set_result(told["answer"])
                    continue
                task = asyncio.create_task(self._hear(told))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (OSError, ValueError):
            pass  # the other end is gone, which is what is told below
        finally:
            self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the other end is gone"))

    async def _hear(self, told: dict[str, Any]) -> None:
        answer = await self._heard(told["what"], told["told"])
        if "number" in told:
            with contextlib.suppress(ConnectionError):  # who asked is gone meanwhile
                self._write({"number": told["number"], "answer": answer or {}})

    def _write(self, told: dict[str, Any]) -> None:
        if self._writer.is_closing():
            raise ConnectionError("the other end is gone")
        self._writer.write(json.dumps(told).encode() + b"\n")
