"""A mall with two shops, on each kind of store: what happens at the other shop has a canary in every text that it writes."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from raceproof import AsyncStore, Lease
from raceproof.declare import spec_of
from raceproof.inbox import Arrival
from raceproof.kernel.keys import key_text
from raceproof.ops.web import Access, Dashboard, audit_ddl, dashboard
from raceproof.schema import Dialect
from tests.ddl import script
from tests.ops.web import mall
from tests.ops.web.fix_shop import Shop, postgres_shop, sqlite_shop, valkey_shop
from tests.ops.web.mall import Parcel, Ticket, Visit

MINE = "north"
OTHER = "north:east"  # begins like mine, and has to be escaped in a key
CANARY = "canary-4c1e"
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)

_TABLES = """
CREATE TABLE mall_parcels (
    shop text, id text, status text NOT NULL, rev bigint NOT NULL DEFAULT 0, note text, sent_at {time}, tries integer,
    claimed_by text, claimed_until {time}, fence bigint, letter_at {time}, letter_sent_at {time}, letter_state text,
    letter_by text, letter_error text, PRIMARY KEY (shop, id)
);
CREATE TABLE mall_visits (
    shop text, id text, status text NOT NULL, guest text, began_at {time}, replaced_by text, PRIMARY KEY (shop, id)
);
CREATE TABLE mall_logins (
    shop text, id text, status text NOT NULL, began_at {time}, replaced_by text, PRIMARY KEY (shop, id)
);
CREATE TABLE mall_tickets (
    id text PRIMARY KEY, status text NOT NULL, note text, poster_at {time}, poster_sent_at {time}, poster_state text,
    poster_by text, poster_error text
);
"""


def tables(dialect: Dialect) -> str:
    """The DDL of the mall, with its audit."""
    time = {"postgres": "timestamptz", "sqlite": "text"}[dialect]
    return (
        _TABLES.format(time=time)
        + script(spec_of(Parcel), dialect=dialect, only="tables")
        + script(Lease("any", table=mall.guard.table), dialect=dialect)
        + script(mall.mail, dialect=dialect)
        + audit_ddl(dialect)
    )


class Mall(Shop):
    """A store with the mall in it."""

    async def put(self, table: str, key: str = "id", **columns: Any) -> None:
        if self.store.dialect == "redis":
            parts = [columns[name] for name in ("shop", key) if name in columns]
            given = {name: str(value) for name, value in columns.items() if value is not None}
            await self.raw.hset(f"{table}:{key_text(tuple(parts))}", mapping=given)
            return
        await super().put(table, key, **columns)

    def dashboard(self, store: Any, may_change: bool = True, **options: Any) -> Dashboard:
        """A dashboard of all that is declared, for somebody who may change things."""
        access = Access("desk", may_change=may_change)
        made = dashboard(store, mall, authorize=lambda request: access, **options)
        self.boards.append(made)
        return made

    async def rows(self) -> list[Any]:
        """All rows of the other shop, and of nobody's tables, to see that nothing was changed."""
        if self.store.dialect == "redis":
            found = [name async for name in self.raw.scan_iter("mall_*") if await self.raw.type(name) == "hash"]
            theirs = [name for name in found if f":{MINE}:" not in name]
            return [(name, sorted((await self.raw.hgetall(name)).items())) for name in sorted(theirs)]
        wanted = [
            f"SELECT * FROM {table} WHERE shop = '{OTHER}' ORDER BY id"
            for table in ("mall_parcels", "mall_visits", "mall_logins")
        ]
        wanted += [f"SELECT * FROM {table} ORDER BY 1, 2" for table in ("mall_tickets", "mall_inbox")]
        if self.store.dialect == "postgres":
            return [[tuple(row) for row in await self.raw.fetch(text)] for text in wanted]
        return [self.raw.execute(text).fetchall() for text in wanted]


def began(mall_: Mall) -> Any:
    """An hour ago, as the store keeps it."""
    if mall_.store.dialect == "redis":
        return LONG_AGO.timestamp()
    return f"{LONG_AGO:%Y-%m-%d %H:%M:%S.%f}"[:-3] if mall_.store.dialect == "sqlite" else LONG_AGO


async def happen_at(mall_: Mall, shop: str, mark: str) -> None:
    """The same things happen at a shop, and leave their mark: moves, losers, a dead worker, an uncertain letter …"""
    db = mall_.store.for_tenant(shop)
    for number in ("1", "2", "3", "4", "5", f"p-{mark}"):
        await mall_.put("mall_parcels", shop=shop, id=number, status="NEW", note=f"note {mark}", rev=0)
    await mall_.put("mall_parcels", shop=shop, id="strange", status=f"LOST {mark}", rev=0)
    await mall_.put("mall_parcels", shop=shop, id="tired", status="NEW", note=mark, rev=0, tries=2)
    await db.offer(Parcel.packing, ["1", "2", "3", "4", "5", "tired", f"p-{mark}"])
    await db.claim_one(Parcel.packing, "1", by=f"packer {mark}")
    await db.claim_one(Parcel.packing, "2", by=f"dead packer {mark}", now=LONG_AGO)
    await db.move(Parcel.send, "3", by=f"sender {mark}", reason=f"reason {mark}", set={"note": f"note {mark}"})
    await db.move(Parcel.fail, "3", by=f"loser {mark}", reason=f"too late {mark}")
    await db.move(Parcel.send, f"p-{mark}", by=f"sender {mark}", reason=f"reason {mark}")
    permit: Any = await db.begin_delivery(mall.letters, "4", by=f"postman {mark}")
    await db.uncertain(permit, f"timeout {mark}")
    sent: Any = await db.begin_delivery(mall.letters, "5", by=f"postman {mark}")
    await db.delivered(sent)
    await db.begin_delivery(mall.letters, "5", by=f"second postman {mark}")
    await db.start_attempt(mall.visits, f"guest {mark}", f"v-1-{mark}", by=f"web {mark}")
    await db.start_attempt(mall.visits, f"guest {mark}", f"v-2-{mark}", by=f"web {mark}")
    await db.move(Visit.finish, f"v-1-{mark}", by=f"late guest {mark}")
    for number in ("a", "b"):
        late: dict[str, Any] = {"status": "open", "guest": f"double {mark}", "began_at": began(mall_)}
        await mall_.put("mall_visits", shop=shop, id=f"{number}-{mark}", **late)
    await mall_.put("mall_logins", shop=shop, id=f"login-{mark}", status="open", began_at=began(mall_))
    await db.start_attempt(mall.logins, shop, f"login-2-{mark}", by=f"web {mark}", when_open="keep")


async def happen_to_anybody(store: AsyncStore, mall_: Mall) -> None:
    """What no column says the tenant of is the other shop's, for all that anybody knows."""
    for number in ("1", "2"):
        await mall_.put("mall_tickets", id=f"{number}-{CANARY}", status="open", note=CANARY)
    await store.move(Ticket.finish, f"1-{CANARY}", by=f"clerk {CANARY}", reason=CANARY)
    await store.move(Ticket.finish, f"1-{CANARY}", by=f"late clerk {CANARY}", reason=CANARY)
    permit: Any = await store.begin_delivery(mall.posters, f"2-{CANARY}", by=f"postman {CANARY}")
    await store.uncertain(permit, f"timeout {CANARY}")
    await store.acquire_lease(mall.guard, f"guard {CANARY}")
    for number in ("1", "2"):
        await store.receive(mall.mail, Arrival(f"source {CANARY}", f"{number}-{CANARY}", b"{}", {}))
    (event, *_) = await store.claim(mall.mail.work, 1, by=f"worker {CANARY}")
    await store.fail(event, reason=CANARY, delay=0.0)


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
async def any_mall(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Mall]:
    """Each kind of store in turn, with the tables of the mall and nothing in them yet."""
    if request.param == "sqlite":
        opening = sqlite_shop(tmp_path, tables("sqlite"))
    elif request.param == "postgres":
        opening = postgres_shop(request.getfixturevalue("empty_postgres"), tables("postgres"))
    else:
        opening = valkey_shop(request.getfixturevalue("valkey_server"))
    async with opening as opened:
        made = Mall(opened.url, opened.store, opened.raw)
        yield made
        for board in made.boards:
            await board.close()
