"""A user of Redis who may only read can look at every page, with scripts and without."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
import redis.asyncio

from raceproof import AsyncStore, connect
from raceproof.kernel.statement import Statement
from raceproof.leases.request import LeaseRequest
from raceproof.ops.web.redis_reader import RedisReader, Way
from raceproof.testing import ValkeyServer
from tests.ops.web import shop
from tests.ops.web.fix_shop import Shop, happen, item, visitor

PAGES = {
    "/": ["Order", "shop-bot", "instance-b", "NEW"],
    "/stuck": ["Order.packing"],
    "/claims": ["packer-1", "packer-2", "over"],
    "/delivery": ["receipt", "uncertain"],
    "/attempts": ["login-2", "eve"],
    "/attempts?owner=eve": ["login-2", "active"],
    "/leader": ["shop-bot", "instance-b"],
    "/inbox": ["shop_inbox", "event-1"],
    "/lifecycle?of=Order&status=CANCELLED": ["key=12"],
    "/audit": [],
    "/races": [],
    item("Order", 12): ["CANCELLED", "cancel"],
    item("Login", "login-1"): ["superseded"],
}
RIGHTS = {
    "+@read": ("+@read",),
    "+@read and read-only scripts": ("+@read", "+eval_ro", "+evalsha_ro"),
    "+@read, read-only scripts and the time": ("+@read", "+eval_ro", "+evalsha_ro", "+time"),
    "+@read and all scripts": ("+@read", "+eval", "+evalsha", "+time"),
}
WAYS = dict(zip(RIGHTS, (Way.COMMANDS, Way.READ_ONLY, Way.READ_ONLY, Way.SCRIPTS), strict=True))


@pytest.fixture
async def owner(valkey_server: ValkeyServer) -> AsyncIterator[Shop]:
    """Everything has happened, in the database that a user gets without SELECT, which is not a right to read."""
    client: Any = redis.asyncio.Redis.from_url(valkey_server.url, decode_responses=True)
    async with client as raw:
        await raw.flushdb()
        async with connect(valkey_server.url) as store:
            made = Shop(valkey_server.url, store, raw)
            await happen(made)
            yield made
            for board in made.boards:
                await board.close()
        await raw.execute_command("ACL", "DELUSER", "looker")
        await raw.flushdb()


async def as_looker(owner: Shop, *rights: str) -> AsyncStore:
    """A store of somebody who has these rights and no others."""
    await owner.raw.execute_command("ACL", "SETUSER", "looker", "reset", "on", ">pw", "~*", *rights)
    return await connect(owner.url.replace("://", "://looker:pw@"))


@pytest.mark.parametrize("name", RIGHTS)
async def test_every_page_can_be_looked_at_with_rights_to_read(owner: Shop, name: str) -> None:
    made = owner.store
    owner.store = await as_looker(owner, *RIGHTS[name])
    board = owner.board()
    try:
        async with visitor(board) as client:
            for path, words in PAGES.items():
                answer = await client.get(path)
                assert answer.status_code == 200, path
                text = unescape(answer.text)
                assert 'class="trouble"' not in text, (path, text.partition('class="trouble"')[2][:300])
                for word in words:
                    assert word in text, (path, word)
            doctor = unescape((await client.get("/doctor")).text)
            if "+time" in RIGHTS[name]:
                assert "Checked" in doctor
            else:  # some of its checks are scripts that look at the clock
                assert "this user of Redis needs +evalsha_ro, +eval_ro and +time" in doctor
        reader: Any = (await board.board.source.reader()).driver
        assert reader.way is WAYS[name]
    finally:
        await owner.store.close()
        owner.store = made


async def test_a_lease_is_told_the_same_without_scripts(owner: Shop) -> None:
    """Held, over, from before the clock was set back, and never had: by plain commands and a clock as by the script."""
    looker = await as_looker(owner, "+@read")
    programs: Any = owner.store.driver.programs.leases
    now = datetime.now(UTC)
    seen = []
    try:
        for had in (True, False):
            if not had:
                await owner.raw.delete(programs.key(shop.bot))
            for seconds in (0, 31, -3600):
                at = now + timedelta(seconds=seconds)
                plain = RedisReader(looker.driver, clock=at.timestamp)
                told = await plain.run(programs.holder(LeaseRequest(shop.bot)))
                assert told == await owner.store.driver.run(programs.holder(LeaseRequest(shop.bot, now=at)))
                assert plain.way is Way.COMMANDS
                seen.append(told.by)
    finally:
        await looker.close()
    assert seen == ["instance-b", None, None, None, None, None]


class Older:
    """A server before Redis 7: it knows no read-only scripts."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.dialect, self.settled = inner, inner.dialect, True
        self.asked: list[str] = []

    async def execute(self, statement: Statement) -> Any:
        self.asked.append(statement.text if not statement.keys else "EVALSHA")
        if statement.text.endswith("_RO"):
            raise redis.ResponseError(f"unknown command '{statement.text}', with args beginning with: ")
        return await self.inner.execute(statement)


async def test_a_server_without_read_only_scripts_is_asked_once(owner: Shop) -> None:
    older: Any = Older(owner.store.driver)
    driver = RedisReader(older)
    programs: Any = owner.store.driver.programs.leases
    for _ in range(2):
        assert (await driver.run(programs.holder(LeaseRequest(shop.bot)))).by == "instance-b"
    assert older.asked == ["EVALSHA_RO", "EVALSHA", "EVALSHA"]


async def test_a_script_that_would_write_is_refused_by_the_server(owner: Shop) -> None:
    driver = RedisReader(owner.store.driver)
    with pytest.raises(redis.ResponseError, match=r"[Ww]rite commands are not allowed"):
        await driver.execute(Statement("web.fields", "return redis.call('HSET', KEYS[1], 'a', '1')", (), ("h",)))
    assert await owner.raw.exists("h") == 0
