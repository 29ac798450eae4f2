"""Stores with the tables of `shop` and with things that have happened in it, and dashboards on them."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg
import httpx
import pytest
import redis.asyncio
import uvicorn
from starlette.types import ASGIApp

from raceproof import AsyncStore, Lease, connect
from raceproof.declare import spec_of
from raceproof.inbox import Arrival
from raceproof.ops.web import Access, Dashboard, audit_ddl, dashboard
from raceproof.schema import Dialect
from raceproof.testing import ValkeyServer
from tests.ddl import script
from tests.ops.web import shop
from tests.ops.web.shop import Login, Order

HOSTILE = "<script>alert('x')</script>\"'&<b>"
CANARY = "canary-b7f3-secret"

_TABLES = """
CREATE TABLE shop_orders (
    id {key}, status text NOT NULL, rev bigint NOT NULL DEFAULT 0, paid integer NOT NULL DEFAULT 1, note text,
    carrier text, shipped_at {time}, api_token text, tries integer, claimed_by text, claimed_until {time}, fence bigint,
    receipt_at {time}, receipt_sent_at {time}, receipt_state text, receipt_by text, receipt_error text, receipt_tries integer
);
CREATE TABLE shop_lines (
    shop text, order_id {number}, place {number}, status text NOT NULL, PRIMARY KEY (shop, order_id, place)
);
CREATE TABLE shop_logins (
    id text PRIMARY KEY, status text NOT NULL, owner text NOT NULL, began_at {time}, superseded_by text
);
"""


def tables(dialect: Dialect) -> str:
    """The DDL of the whole shop, with its audit."""
    words = {
        "postgres": {"key": "bigint PRIMARY KEY", "time": "timestamptz", "number": "bigint"},
        "sqlite": {"key": "INTEGER PRIMARY KEY", "time": "text", "number": "integer"},
    }[dialect]
    return (
        _TABLES.format(**words)
        + script(spec_of(Order), dialect=dialect, only="tables")
        + script(Order.packing, dialect=dialect, only="indexes").replace(" CONCURRENTLY", "")
        + script(Lease("any", table=shop.bot.table), dialect=dialect)
        + script(shop.events, dialect=dialect)
        + audit_ddl(dialect)
    )


@dataclass
class Shop:
    """A store with the shop in it."""

    url: str
    store: AsyncStore
    raw: Any
    """A way around the library: `await put(…)`."""
    boards: list[Dashboard] = field(default_factory=list)

    async def put(self, table: str, key: str = "id", **columns: Any) -> None:
        """A row, written by somebody else."""
        if self.store.dialect == "redis":
            given = {name: str(value) for name, value in columns.items() if value is not None}
            await self.raw.hset(f"{table}:{columns[key]}", mapping=given)
            return
        names = ", ".join(columns)
        if self.store.dialect == "postgres":
            marks = ", ".join(f"${place + 1}" for place in range(len(columns)))
            await self.raw.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", *columns.values())
            return
        marks = ", ".join("?" * len(columns))
        self.raw.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))

    def key(self, number: int) -> Any:
        return str(number) if self.store.dialect == "redis" else number

    def board(self, may_change: bool = False, **options: Any) -> Dashboard:
        made = dashboard(
            self.store,
            shop,
            authorize=lambda request: Access("ann", may_change=may_change),
            **{"title": "shop", "where": self.store.dialect, **options},
        )
        self.boards.append(made)
        return made


async def happen(shop_: Shop) -> None:
    """Things happen: moves that win and lose, a dead worker, an uncertain send, two logins of one user, a dead event."""
    db = shop_.store
    for number in range(1, 13):
        await shop_.put(
            "shop_orders", id=shop_.key(number), status="NEW", note=HOSTILE, api_token=CANARY, rev=0, paid=1
        )
    await db.offer(Order.packing, [shop_.key(number) for number in range(1, 13)])
    long_ago = datetime.now(UTC) - timedelta(minutes=9)
    held = await db.claim(Order.packing, 3, by="packer-2")
    (dead,) = await db.claim(Order.packing, 1, by="packer-1", lease=0.001)
    await db.move(Order.pack, held[-1], by="packer-2")
    await db.move(Order.ship, held[-1].key, by="desk", reason=f"paid {HOSTILE}", set={"carrier": HOSTILE})
    await db.move(Order.cancel, held[-1].key, by="customer", reason="too late")
    await db.move(Order.pack, held[-1].key, by="packer-7")
    await db.move(Order.cancel, shop_.key(12), by=HOSTILE, reason=HOSTILE)
    permit: Any = await db.begin_delivery(shop.receipts, held[-1].key, by="callback")
    await db.delivered(permit)
    await db.begin_delivery(shop.receipts, held[-1].key, by="poller")
    lost: Any = await db.begin_delivery(shop.receipts, shop_.key(11), by="callback")
    await db.uncertain(lost, f"timeout {HOSTILE}")
    await db.start_attempt(shop.logins, "eve", "login-1", by="web")
    await db.start_attempt(shop.logins, "eve", "login-2", by="web")
    await db.move(Login.finish, "login-1", by="late worker")
    await db.acquire_lease(shop.bot, "instance-a", now=long_ago)
    await db.acquire_lease(shop.bot, "instance-b")
    for number in range(3):
        await db.receive(shop.events, Arrival("kie", f"event-{number}", b"{}", {}))
    await db.receive(shop.events, Arrival("kie", "event-0", b"{}", {}))
    await db.receive(shop.events, Arrival(HOSTILE, HOSTILE, CANARY.encode(), {"authorization": CANARY}))
    for _ in range(2):
        for one in await db.claim(shop.events.work, 10, by="worker"):
            if one.key == ("kie", "event-0"):
                await db.fail(one, reason="bad", delay=0.0)
            else:
                await db.release(one)
    assert dead.by == "packer-1"


@asynccontextmanager
async def sqlite_shop(folder: Path, ddl: str | None = None) -> AsyncIterator[Shop]:
    path = folder / "shop.db"
    raw = sqlite3.connect(path, isolation_level=None)
    raw.executescript(ddl or tables("sqlite"))
    try:
        async with connect(f"sqlite:///{path}") as store:
            yield Shop(f"sqlite:///{path}", store, raw)
    finally:
        raw.close()


@asynccontextmanager
async def postgres_shop(url: str, ddl: str | None = None) -> AsyncIterator[Shop]:
    raw = await asyncpg.connect(url)
    try:
        await raw.execute(ddl or tables("postgres"))
        async with connect(url) as store:
            yield Shop(url, store, raw)
    finally:
        await raw.close()


@asynccontextmanager
async def valkey_shop(server: ValkeyServer) -> AsyncIterator[Shop]:
    url = server.url.removesuffix("/0") + "/11"
    async with redis.asyncio.Redis.from_url(url, decode_responses=True) as raw:
        await raw.flushdb()
        async with connect(url) as store:
            yield Shop(url, store, raw)
        await raw.flushdb()


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
async def any_shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    """Each kind of store in turn, with things that have happened."""
    if request.param == "sqlite":
        opening = sqlite_shop(tmp_path)
    elif request.param == "postgres":
        opening = postgres_shop(request.getfixturevalue("empty_postgres"))
    else:
        opening = valkey_shop(request.getfixturevalue("valkey_server"))
    async with opening as made:
        await happen(made)
        yield made
        for board in made.boards:
            await board.close()


@pytest.fixture
async def small_shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """The embedded store, with things that have happened."""
    async with sqlite_shop(tmp_path) as made:
        await happen(made)
        yield made
        for board in made.boards:
            await board.close()


def visitor(app: ASGIApp, root: str = "") -> httpx.AsyncClient:
    """A browser without a window."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, root_path=root), base_url="http://shop.test")


def item(of: str, *parts: object) -> str:
    return "/item?" + urlencode({"of": of, "key": [str(part) for part in parts]}, doseq=True)


@asynccontextmanager
async def served(app: ASGIApp, **settings: Any) -> AsyncIterator[str]:
    """The application behind a real server on a free port, for as long as the block lasts."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        log_level="error",
        timeout_graceful_shutdown=1,
        lifespan="off",
        **settings,
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done(), "the server did not start"
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
