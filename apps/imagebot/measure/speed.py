"""Fast ack: how quickly updates are answered at a rate, how many a second at most beside two other handlers, and what is
left of them after a kill.

The others get the same body in the same way: a bare aiohttp handler that reads it and answers 200, and aiogram's own
webhook handler, which answers before anything is kept.
"""

import asyncio
import json
import secrets
import signal
import time
from contextlib import suppress
from typing import Any

from aiohttp import web
from sqlalchemy import text

from appkit.storm import Report, percentile, until
from imagebot.controller import LEASE
from imagebot.measure.ground import Ground, free_port, ground, message
from imagebot.warm import WarmInstance
from raceproof import Lease

CONNECTIONS = 40
"""As many as Telegram opens by default."""


async def measure(rate: int, seconds: float, database: str, output: str) -> int:
    """Print the figures; 1 if an acknowledged update is lost."""
    report = Report("imagebot fast ack")
    async with ground(database) as made:
        await made.simulate("--size", "8", "--no-people")
        async with made.opened() as service:
            # nobody works while the answers are measured: the updates wait for whoever is ACTIVE
            await service.store.acquire_lease(Lease(LEASE, seconds=3600), by="speed")
        instance = made.start("one")
        await made.reached(made.url("/health"), instance)
        report.counts["store"] = database
        number = iter(range(1, 10**9))

        def body() -> bytes:
            at = next(number)
            return json.dumps(message(at, 10**6 + at % 5000, "hello")).encode()

        path = f"/webhook/{made.secret}"
        load = Load(made.port, path, made.secret, body)
        times = await load.at_rate(rate, seconds)
        report.counts["requests a second, asked / answered"] = f"{rate} / {len(times) / seconds:.0f}"
        report.counts["answer time p50 / p99, ms"] = (
            f"{1000 * percentile(times, 0.5):.1f} / {1000 * percentile(times, 0.99):.1f}"
        )
        await _beside(made, report, body, load, seconds)
        await _killed(made, instance, report, load, rate)
    return report.show(output)


async def _beside(made: Ground, report: Report, body: Any, load: "Load", seconds: float) -> None:
    """As many as go through, one handler after the other, twice in turn."""
    others = {}
    for kind in ("bare", "aiogram"):
        port = free_port()
        process = made.warm.start(
            kind, ["other-webhook", kind, str(port), made.secret], made.environment(kind), made.folder
        )
        made.instances.append(process)
        await made.reached(made.url("/health", port), process)
        others[kind] = Load(port, "/webhook", made.secret, body)
    best: dict[str, float] = {}
    for _ in range(2):
        for name, one in (("imagebot", load), *others.items()):
            best[name] = max(best.get(name, 0.0), await one.at_most(seconds / 2))
    report.counts["requests a second, at most"] = {name: round(number) for name, number in best.items()}
    report.counts["ratio to a bare handler"] = f"{best['imagebot'] / best['bare']:.2f}"
    report.counts["ratio to aiogram's own"] = f"{best['imagebot'] / best['aiogram']:.2f}"


async def _killed(made: Ground, instance: WarmInstance, report: Report, load: "Load", rate: int) -> None:
    """Kill it in the middle, and look for everything that was answered with 200."""
    load.acknowledged.clear()
    loading = asyncio.create_task(load.at_rate(rate, 4.0))
    await until(lambda: _some(load), 30, 0.01)
    await asyncio.to_thread(instance.signal, signal.SIGKILL)
    await loading
    async with made.opened() as database, database.transaction() as (connection, _):
        kept = {int(row.event_id) for row in await connection.execute(text("SELECT event_id FROM telegram_updates"))}
    lost = load.acknowledged - kept
    report.counts["acknowledged before the kill"] = len(load.acknowledged)
    report.check("nothing acknowledged is lost in a kill", not lost, f"{len(lost)} lost")


async def _some(load: "Load") -> bool:
    return len(load.acknowledged) > 300


class Load:
    """Requests on kept connections; what was answered with 200 is remembered by its number."""

    def __init__(self, port: int, path: str, secret: str, body: Any) -> None:
        self._port = port
        self._body = body
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"X-Telegram-Bot-Api-Secret-Token: {secret}\r\nContent-Length: "
        ).encode()
        self.acknowledged: set[int] = set()

    async def at_rate(self, rate: int, seconds: float) -> list[float]:
        """Begin a request at each tick, whoever has been answered or not; the time counts from the tick."""
        times: list[float] = []
        waiting: asyncio.Queue[float | None] = asyncio.Queue()
        workers = [asyncio.create_task(self._answering(waiting, times)) for _ in range(CONNECTIONS)]
        began = time.monotonic()
        for tick in range(int(rate * seconds)):
            at = began + tick / rate
            if (rest := at - time.monotonic()) > 0:
                await asyncio.sleep(rest)
            waiting.put_nowait(at)
        for _ in workers:
            waiting.put_nowait(None)
        await asyncio.gather(*workers)
        return times

    async def at_most(self, seconds: float) -> float:
        """As many as go through in this time, a second."""
        ends = time.monotonic() + seconds
        counts = await asyncio.gather(*(self._until(ends) for _ in range(CONNECTIONS)))
        return sum(counts) / seconds

    async def _until(self, ends: float) -> int:
        done = 0
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while time.monotonic() < ends:
                done += await self._once(reader, writer)
        finally:
            writer.close()
        return done

    async def _answering(self, waiting: asyncio.Queue[float | None], times: list[float]) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                while (at := await waiting.get()) is not None:
                    if await self._once(reader, writer):
                        times.append(time.monotonic() - at)
            finally:
                writer.close()

    async def _once(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        body = self._body()
        number = json.loads(body)["update_id"]
        writer.write(self._head + str(len(body)).encode() + b"\r\n\r\n" + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        await reader.readexactly(int(length.partition(b":")[2]))
        answered = head.startswith(b"HTTP/1.1 200")
        if answered:
            self.acknowledged.add(number)
        return answered


async def other_webhook(kind: str, port: int, secret: str) -> None:
    """What imagebot is measured beside, in a process of its own."""
    app = web.Application()

    async def health(_: web.Request) -> web.Response:
        return web.json_response({})

    app.router.add_get("/health", health)
    if kind == "bare":

        async def bare(request: web.Request) -> web.Response:
            await request.read()
            return web.Response()

        app.router.add_post("/webhook", bare)
    else:
        from aiogram import Bot, Dispatcher
        from aiogram.types import Message
        from aiogram.webhook.aiohttp_server import SimpleRequestHandler

        dispatcher = Dispatcher(disable_fsm=True)

        async def nothing(_: Message) -> None: ...

        dispatcher.message.register(nothing)
        handler: Any = SimpleRequestHandler(
            dispatcher, Bot(f"1:{secrets.token_hex(8)}"), handle_in_background=True, secret_token=secret
        )
        handler.register(app, path="/webhook")
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()
