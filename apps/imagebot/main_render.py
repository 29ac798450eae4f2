"""The only way in: the aiohttp application on $PORT, and what runs behind it.

It listens before there is a database, so that a deploy sees how it is; until then webhooks are answered with 503, and
their senders bring them again.
"""

import asyncio
import hmac
import logging
import time
from urllib.parse import urlsplit

import asyncpg
from aiohttp import web
from prometheus_client import generate_latest

from appkit.hosts import Hosts
from appkit.loops import Loops
from imagebot.hosts import available, known_hosts
from imagebot.kie_signature import kie_signature, task_id
from imagebot.lifecycle import WORK
from imagebot.metrics import Metrics
from imagebot.runtime import Runtime, running
from imagebot.services import open_service
from imagebot.settings import Settings, revealed
from imagebot.update_queue import CAPACITY, WORKERS, user_of
from raceproof.inbox import Arrival
from raceproof.webhooks import Endpoint, Secret, TelegramSecret
from raceproof.webhooks.aiohttp import aiohttp_handler

log = logging.getLogger("imagebot")

LONGEST_REST = 60.0
UNREACHABLE = (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError)


class NoDatabase(Exception):
    """There is none right now: 503."""


class Application:
    """What the routes need, with or without a database."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.loops = Loops()
        self.runtime: Runtime | None = None
        self.port = settings.port
        self._started = time.monotonic()
        self._secret = revealed(settings.webhook_secret).encode()
        self._telegram = aiohttp_handler(
            Endpoint(
                WORK,
                TelegramSecret(Secret(revealed(settings.webhook_secret))),
                self._keep_update,
                event_id=lambda update: update["update_id"],
                ordering_key=user_of,
                in_flight=512,
                on_reply=self._count,
            )
        )
        self._kie = aiohttp_handler(
            Endpoint(
                "kie",
                kie_signature(Secret(revealed(settings.kie_webhook_key))),
                self._keep_callback,
                event_id=task_id,
                keep=("x-webhook-timestamp",),
                on_reply=self._count,
            )
        )

    def routed(self) -> web.Application:
        """The four routes."""
        names = [urlsplit(self.settings.public_url).hostname or "", *self.settings.hosts]
        checks = [known_hosts(Hosts("imagebot", filter(None, names))), available(lambda: self.loops)]
        app = web.Application(client_max_size=1024 * 1024, middlewares=checks)
        app.router.add_get("/health", self.health)
        app.router.add_post("/webhook/{secret}", self.webhook)
        app.router.add_post("/kie-callback", self.kie_callback)
        app.router.add_get("/metrics", self.show_metrics)
        return app

    async def webhook(self, request: web.Request) -> web.StreamResponse:
        """An update of Telegram: kept, then 200."""
        told = request.match_info["secret"].encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(told, self._secret):
            self._count(WORK, 401, "path_mismatch")
            return web.Response(status=401)
        return await self._telegram(request)

    async def kie_callback(self, request: web.Request) -> web.StreamResponse:
        """KIE says that a task has ended: kept, then 200. PASSIVE instances take these too."""
        return await self._kie(request)

    async def health(self, _: web.Request) -> web.Response:
        """200 while everything works, ACTIVE or PASSIVE; 503 with what is wrong otherwise."""
        runtime = self.runtime
        loops = self.loops.health() if runtime else {"database": "not connected, trying again"}
        healthy = runtime is not None and self.loops.healthy
        told = {
            "healthy": healthy,
            "mode": str(runtime.lock.role) if runtime else "PASSIVE",
            "uptime": round(time.monotonic() - self._started),
            "instance": runtime.lock.leader.by if runtime else self.settings.instance,
            "epoch": runtime.lock.epoch if runtime else None,
            "loops": loops,
            "queue": self._queue(),
        }
        return web.json_response(told, status=200 if healthy else 503)

    async def show_metrics(self, _: web.Request) -> web.Response:
        """For Prometheus."""
        text = generate_latest(self.metrics.registry)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    def _queue(self) -> dict[str, float]:
        value = self.metrics.value
        received, refused = value(self.metrics.total_received), value(self.metrics.refused)
        return {
            "total_received": received,
            "total_processed": value(self.metrics.total_processed),
            "queue_depth": value(self.metrics.queue_depth),
            "drop_rate": refused / max(1, received + refused),
            "capacity": CAPACITY,
            "workers": WORKERS,
        }

    async def _keep_update(self, arrival: Arrival) -> object:
        return await self._working().queue.receive(arrival)

    async def _keep_callback(self, arrival: Arrival) -> object:
        """Each delivery of a callback is an event of its own; the same one, replayed, is not."""
        told = f"{arrival.event_id}:{arrival.headers.get('x-webhook-timestamp', '')}"
        return await self._working().keep_callback(arrival._replace(event_id=told))

    def _working(self) -> Runtime:
        if self.runtime is None:
            raise NoDatabase
        return self.runtime

    def _count(self, source: str, status: int, reason: str) -> None:
        self.metrics.reply(source, reason).inc()
        if source == WORK and status == 503:
            self.metrics.refused.inc()


async def run(settings: Settings, stop: asyncio.Event, started: asyncio.Event | None = None) -> None:
    """Serve until `stop`; then drain, close the port, and close the database last."""
    settings.must_be_complete()
    application = Application(settings)
    runner = web.AppRunner(application.routed(), access_log=None, handle_signals=False, shutdown_timeout=3)
    await runner.setup()
    site = web.TCPSite(runner, settings.listens_on, settings.port, reuse_port=settings.reuse_port or None)
    await site.start()
    log.info("[START] %s listens on %s:%s", settings.instance, settings.listens_on, settings.port)
    try:
        await _with_database(application, runner, stop, started)
    finally:
        await runner.cleanup()
    log.info("[STOP] %s has ended in good order", settings.instance)


def _reason(error: Exception) -> str:
    """The kind of an error and its first line; the log is without secrets (`redaction`)."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:400]}"


async def _with_database(
    application: Application, runner: web.AppRunner, stop: asyncio.Event, started: asyncio.Event | None
) -> None:
    """Until `stop`; a database that is not there is asked for again, at longer and longer intervals."""
    rest = 1.0
    while not stop.is_set():
        application.loops = Loops()
        try:
            async with open_service(application.settings) as database:
                parts = (database, application.settings, application.metrics, application.loops)
                async with running(*parts) as runtime:
                    application.runtime = runtime
                    rest = 1.0
                    if started:
                        started.set()
                    await stop.wait()
                    log.info("[DRAIN] nothing more is taken")
                    await runtime.drain()
                    await runner.cleanup()
        except Exception as error:
            if stop.is_set():
                log.warning("[STOP] %s while ending", type(error).__name__)
                return
            application.runtime = None
            tag = "DB_UNAVAILABLE" if isinstance(error, UNREACHABLE) else "START_FAILED"
            log.error("[%s] %s: PASSIVE, again in %.0f s", tag, _reason(error), rest)
            try:
                async with asyncio.timeout(rest):
                    await stop.wait()
            except TimeoutError:
                rest = min(2 * rest, LONGEST_REST)
