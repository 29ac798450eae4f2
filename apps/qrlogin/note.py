"""The note's classes, for code without asyncio. Each takes a client of redis-py's and works on the server behind it.

    manager = QRSessionManager(redis_client)
    session_id = manager.create_session(user_id, ttl_seconds=900)
    success = ImprovedQRProcessor(redis_client).process_qr_session(user_id)
    health = QRDiagnostics(redis_client).check_session_health(user_id)

They may also be called where an event loop runs; the call then blocks it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import redis

from appkit.loops import Loop
from qrlogin.diagnose import cleanup_user, health_of_user
from qrlogin.identity import SessionId
from qrlogin.ingest import Ingest
from qrlogin.lifecycle import ACTIVE_SECONDS, Status
from qrlogin.manager import Manager
from qrlogin.metrics import Metrics
from qrlogin.places import AttemptPlaces, open_places, open_redis
from qrlogin.settings import Settings
from qrlogin.which import near_telegram, telegram_of

T = TypeVar("T")


class _OnRedis:
    def __init__(self, redis_client: "redis.Redis") -> None:
        self._url = url_of(redis_client)

    def _do(self, what: Callable[[AttemptPlaces], Coroutine[Any, Any, T]]) -> T:
        async def connected() -> T:
            async with open_redis(self._url) as places:
                return await what(places)

        return _run(connected())


class QRSessionManager(_OnRedis):
    """Starts attempts. A start ends the open one before it, and none that has ended."""

    def create_session(
        self, user_id: str | int, ttl_seconds: int = ACTIVE_SECONDS, account_id: int | None = None
    ) -> str:
        """Start an attempt and make it the user's active one; returns its id.

        Only the phone of this user may scan: `account_id`, if the user id is not that of a Telegram account.
        """
        return self._do(lambda places: Manager(places, Metrics()).create_session(str(user_id), ttl_seconds, account_id))

    def get_active_session_for_user(self, user_id: str | int) -> dict[str, Any] | None:
        """The active attempt with all its fields, and never another."""
        return self._do(lambda places: places.active(str(user_id)))


class ImprovedQRProcessor(_OnRedis):
    """Brings attempts to their end. Telegram, keys and database are those of the settings (QRLOGIN_…)."""

    def get_active_session_for_user(self, user_id: str | int) -> dict[str, Any] | None:
        """The active attempt with all its fields, and never another."""
        return self._do(lambda places: places.active(str(user_id)))

    def process_qr_session(self, user_id: str | int) -> bool:
        """Show codes for the active attempt until it has ended; whether the user is logged in.

        False at once if there is no active attempt, or another process has it.
        """
        return _run(_processed(Settings(store=self._url), str(user_id)))


class QRDiagnostics(_OnRedis):
    """Looks for what is wrong with the attempts of a user."""

    def check_session_health(self, user_id: str | int) -> dict[str, Any]:
        """The active attempt, issues and warnings, each with its repair."""
        return self._do(lambda places: health_of_user(places, str(user_id)))

    def cleanup(self, user_id: str | int) -> list[str]:
        """Repair what is wrong and remove what has ended; what was done, in words."""
        return self._do(lambda places: cleanup_user(places, str(user_id)))


def url_of(client: Any) -> str:
    """The URL of the server that a client of redis-py's talks to, with its credentials."""
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        raise TypeError(f"redis_client must be a redis.Redis, got {type(client).__name__}")
    told = pool.connection_kwargs
    login = ""
    if told.get("password"):
        login = f"{quote(told.get('username') or '', safe='')}:{quote(told['password'], safe='')}@"
    more = {name: value for name, value in told.items() if name.startswith("ssl_") and isinstance(value, str)}
    if "path" in told:
        return f"unix://{login}{told['path']}?{urlencode({'db': told.get('db') or 0})}"
    scheme = "rediss" if issubclass(pool.connection_class, redis.SSLConnection) else "redis"
    host = told.get("host", "localhost")
    place = f"[{host}]" if ":" in host else host
    query = f"?{urlencode(more)}" if more else ""
    return f"{scheme}://{login}{place}:{told.get('port', 6379)}/{told.get('db') or 0}{query}"


async def _processed(settings: Settings, user_id: str) -> bool:
    async with (
        telegram_of(near_telegram(settings), simulate=False) as (clients, _),
        open_places(settings) as places,
    ):
        row = await places.active(user_id)
        if row is None:
            return False
        ingest = Ingest(places, clients, Metrics(), settings)
        renewing = asyncio.create_task(ingest.renew(Loop("renewals", silent=60.0)))
        session_id = SessionId.parsed(row["session_id"])
        try:
            await ingest.process(session_id)
        finally:
            renewing.cancel()
            ingest.halt()
            await ingest.stop()
        ended = await places.row(session_id)
        return ended is not None and ended["status"] == Status.DONE


def _run(call: Coroutine[Any, Any, T]) -> T:
    """Also where a loop runs already: then in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call).result()
