"""The numbers on the pages: each is counted, and says over which time or among which rows."""

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from raceproof.kernel.statement import Program, Statement, T
from raceproof.ops.sweep import sweep
from raceproof.ops.web.queries.deliveries import deliveries
from raceproof.ops.web.queries.rates import HOUR, LOOKED_AT, MINUTE, paces
from raceproof.ops.web.queries.rows import MOST
from raceproof.ops.web.recent_counts import RecentCounts
from tests.ops.web.fix_shop import Shop, postgres_shop, sqlite_shop, visitor
from tests.ops.web.shop import Line, Order, logins, receipts

_MANY = {
    "postgres": "INSERT INTO shop_history (lifecycle, key, move, outcome, after, at) "
    "SELECT 'Order', n::text, $1::text, $2::text, 'SHIPPED', clock_timestamp() - $3::float8 * interval '1 second' "
    "FROM generate_series(1, $4::int) AS n",
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :v4) "
    "INSERT INTO shop_history (lifecycle, key, move, outcome, after, at) "
    "SELECT 'Order', n, :v1, :v2, 'SHIPPED', strftime('%Y-%m-%d %H:%M:%f', 'now', (0 - :v3) || ' seconds') FROM s",
}


async def write(shop: Shop, text: str, *values: Any) -> None:
    if shop.store.dialect == "postgres":
        await shop.raw.execute(text, *values)
    else:
        shop.raw.execute(text, {f"v{place}": value for place, value in enumerate(values, 1)})


async def decided(shop: Shop, number: int, seconds_ago: float, move: str = "ship", outcome: str = "moved") -> None:
    """So many decisions in the history, made so long ago."""
    await write(shop, _MANY[shop.store.dialect], move, outcome, seconds_ago, number)


@pytest.fixture(params=["sqlite", "postgres"])
async def sql_shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    """An empty shop in a database that has tables."""
    opening = (
        sqlite_shop(tmp_path) if request.param == "sqlite" else postgres_shop(request.getfixturevalue("empty_postgres"))
    )
    async with opening as made:
        yield made
        for board in made.boards:
            await board.close()


async def text_of(shop: Shop, path: str) -> str:
    """A page as it is read, without its tags."""
    async with visitor(shop.board()) as client:
        answer = await client.get(path)
    assert 'class="trouble"' not in answer.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", unescape(answer.text)))


async def test_moves_of_the_last_minute_are_counted_whatever_happened_before(sql_shop: Shop) -> None:
    """A mean over the newest decisions, which reach back twenty minutes, would say something else."""
    await decided(sql_shop, 4000, 1200)
    await decided(sql_shop, 612, 30)
    await decided(sql_shop, 3277, 20, outcome="refused")
    page = await text_of(sql_shop, "/")
    assert " 612 moves in the last minute, in 2 of 4 lifecycles" in page
    assert " 612 moves in the last minute · 3,277 refused in the last minute" in page
    assert "3,277 refused in the last minute" in page
    assert "3277 refused" not in page
    lifecycle = await text_of(sql_shop, "/lifecycle?of=Order")
    assert "Moves in the last hour" in lifecycle
    assert "PACKED → SHIPPED 4,612 3,277" in lifecycle


async def test_a_lifecycle_that_moved_two_hours_ago_says_how_long_it_has_been_quiet(sql_shop: Shop) -> None:
    await decided(sql_shop, 5, 7200)
    assert "no moves in the last hour" in await text_of(sql_shop, "/")
    await decided(sql_shop, 14, 600)
    assert "no moves in the last minute, 14 in the last hour" in await text_of(sql_shop, "/")
    await decided(sql_shop, 1, 1)
    page = await text_of(sql_shop, "/")
    assert " 1 move in the last minute" in page
    assert "of late" not in page


async def test_more_decisions_than_are_looked_at_shorten_the_time_that_is_named(sql_shop: Shop) -> None:
    await decided(sql_shop, 3000, 50)
    await decided(sql_shop, LOOKED_AT, 20)
    page = await text_of(sql_shop, "/")
    assert "10,000+ moves in the last minute" in page
    assert re.search(r"10,000 moves in the last 2\d s", page)
    assert re.search(r"Moves in the last 2\d s", await text_of(sql_shop, "/lifecycle?of=Order"))


async def test_the_same_number_over_an_hour_is_named_by_the_time_that_was_looked_at(sql_shop: Shop) -> None:
    await decided(sql_shop, 500, 3000)
    await decided(sql_shop, LOOKED_AT - 100, 600)
    await decided(sql_shop, 100, 1)
    found = await sql_shop.board().board.source.run(lambda store: paces(store, "shop_history", ["Order"]))
    pace = found["Order"]
    assert (pace.minute.seconds, pace.minute.made) == (MINUTE, 100)
    assert (pace.hour.words, pace.hour.made) == ("the last 10 min", LOOKED_AT)


async def test_without_a_history_the_page_says_that_moves_are_not_counted(any_shop: Shop) -> None:
    """It does not say that nothing moved."""
    page = await text_of(any_shop, "/lifecycle?of=Line")
    assert "No history is declared, so moves are not counted." in page
    page = await text_of(any_shop, "/")
    assert "no history is declared, so moves are not counted" in page
    assert "nothing moved" not in page
    if any_shop.store.dialect == "redis":
        assert "Redis stores a history per row, so moves are not counted" in page
        assert "refused moves are not recorded" in page


async def test_without_a_history_the_moves_of_this_process_are_counted_and_called_so(any_shop: Shop) -> None:
    board = any_shop.board()
    key = (any_shop.key(1), any_shop.key(2))
    if any_shop.store.dialect == "redis":
        await any_shop.raw.hset("shop_lines:north:1:2", mapping={"status": "open"})
    else:
        await any_shop.put("shop_lines", shop="north", order_id=1, place=2, status="open")
    for _ in range(2):
        await any_shop.store.for_tenant("north").move(Line.close, key)
    async with visitor(board) as client:
        assert "1 move in the last minute in this process" in (await client.get("/")).text


async def test_a_histories_losers_are_not_said_to_be_none_where_they_are_not_kept(sql_shop: Shop) -> None:
    page = await text_of(sql_shop, "/lifecycle?of=Line")
    assert re.search(r"close open → closed – –", page)


async def test_deliveries_with_random_keys_are_all_counted(sql_shop: Shop) -> None:
    """The last thousand rows by key are a random half of them, and say nothing of the others."""
    await write(sql_shop, "DROP TABLE shop_orders")
    columns = "id text PRIMARY KEY, receipt_at text, receipt_sent_at text, receipt_state text, receipt_by text"
    time = "timestamptz" if sql_shop.store.dialect == "postgres" else "text"
    columns = columns.replace("at text", f"at {time}") + ", receipt_error text, receipt_tries integer"
    await write(sql_shop, f"CREATE TABLE shop_orders ({columns})")
    for number in range(1950):
        sent = "'2026-01-01 00:00:00.000'" if number >= 3 else "NULL"
        await write(
            sql_shop,
            "INSERT INTO shop_orders (id, receipt_at, receipt_sent_at, receipt_by) "
            f"VALUES ('{uuid4()}', {sent}, {sent}, 'mailer-{number % 2}')",
        )
    page = await text_of(sql_shop, "/delivery")
    assert "3 ready 1,947 delivered" in page
    assert "Delivered by all 1,950 rows" in page
    assert re.search(r"mailer-1 +974", page)


async def test_more_deliveries_than_are_counted_have_a_plus_and_say_what_was_counted(sql_shop: Shop) -> None:
    await write(
        sql_shop,
        "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 10100) "
        "INSERT INTO shop_orders (id, status, receipt_at, receipt_state, receipt_sent_at) "
        "SELECT n, 'NEW', CASE WHEN n <= 5 THEN "
        + ("'2026-01-01'::timestamptz" if sql_shop.store.dialect == "postgres" else "'2026-01-01 00:00:00.000'")
        + " END, CASE WHEN n <= 5 THEN 'uncertain' END, NULL FROM s",
    )
    page = await text_of(sql_shop, "/delivery")
    assert "10,001+ ready" not in page
    assert "10,000+ ready" in page
    assert "more than 10,000 rows: counted among 10,000 of them by key, which need not be the newest" in page
    assert "uncertain" not in page.partition("ready")[0].partition("policy")[2]
    await write(sql_shop, "CREATE INDEX under_way ON shop_orders (receipt_at) WHERE receipt_at IS NOT NULL")
    assert "5 uncertain" in await text_of(sql_shop, "/delivery")
    assert "0+" not in await text_of(sql_shop, "/stuck")


async def test_nothing_stuck_is_a_plain_zero_where_everything_was_looked_at(sql_shop: Shop) -> None:
    assert re.search(r" 0 stuck now", await text_of(sql_shop, "/"))
    assert MOST == 10_000


def noting(program: Program[T], sent: list[Statement]) -> Program[T]:
    """The same program; its statements are noted."""
    try:
        statement = next(program)
        while True:
            sent.append(statement)
            statement = program.send((yield statement))
    except StopIteration as stop:
        result: T = stop.value
        return result


async def test_a_history_is_read_backwards_by_its_primary_key(sql_shop: Shop) -> None:
    """Whatever its size: neither a walk through all of it nor a sort."""
    await decided(sql_shop, 30_000, 4000)
    await decided(sql_shop, 10, 1)
    await write(sql_shop, "ANALYZE")
    sent: list[Statement] = []
    found = await sql_shop.board().board.source.run(lambda store: noting(paces(store, "shop_history", ["Order"]), sent))
    assert found["Order"].minute.made == 10
    plans = {}
    for one in sent:
        if sql_shop.store.dialect == "postgres":
            lines = await sql_shop.raw.fetch(f"EXPLAIN {one.text}", *one.params)
            plans[one.name] = " ".join(row[0] for row in lines)
        else:
            lines = sql_shop.raw.execute(f"EXPLAIN QUERY PLAN {one.text}", one.params)
            plans[one.name] = " ".join(row[3] for row in lines)
    assert set(plans) == {"web.clock", "web.reach", "web.paces"}
    for name in ("web.reach", "web.paces"):
        if sql_shop.store.dialect == "postgres":
            assert "Index Scan Backward using shop_history_pkey" in plans[name]
            assert "Seq Scan" not in plans[name]
        else:
            assert "SCAN h" in plans[name]  # by its rowid, which is its id
            assert "FOR ORDER BY" not in plans[name]


async def test_every_move_of_this_process_is_counted_whichever_call_made_it(small_shop: Shop) -> None:
    """The history of an order says how many there were: claims, releases, sweeps and starts make moves too."""
    board = small_shop.board()
    before = small_shop.raw.execute("SELECT max(id) FROM shop_history").fetchone()[0]
    (first, second) = await small_shop.store.claim(Order.packing, 2, by="packer", lease=30)
    await small_shop.store.release(first)
    await small_shop.store.move(Order.pack, second)
    await small_shop.store.move(Order.pack, second.key)
    small_shop.raw.execute("UPDATE shop_orders SET tries = 3 WHERE status = 'NEW' AND id > 6")
    await sweep(small_shop.store, Order.packing)
    await small_shop.store.start_attempt(logins, "eve", "login-3")
    kept = small_shop.raw.execute(
        "SELECT lifecycle, move, outcome, count(*) FROM shop_history WHERE id > ? AND outcome NOT IN ('started', 'claimed') "
        "GROUP BY lifecycle, move, outcome",
        (before,),
    ).fetchall()
    counted = board.board.feed.recent_counts.within(MINUTE)
    assert sorted((*key, number) for key, number in counted.items()) == sorted(kept)
    assert {row[1] for row in kept} >= {"start", "put_back", "pack", "give_up", "supersede"}


def test_what_this_process_counts_is_forgotten_after_its_time() -> None:
    now = [1000.0]
    recently: RecentCounts[str] = RecentCounts(clock=lambda: now[0])
    recently.add("move")
    now[0] += 30
    recently.add("move")
    recently.add("other")
    assert recently.within(MINUTE) == {"move": 2, "other": 1}
    now[0] += 31
    assert recently.within(MINUTE) == {"move": 1, "other": 1}
    assert recently.within(HOUR) == {"move": 2, "other": 1}
    now[0] += 3600
    recently.add("move")
    assert recently.within(HOUR) == {"move": 1}


async def test_the_states_of_deliveries_are_counted_by_a_window_of_the_primary_key(sql_shop: Shop) -> None:
    found = await sql_shop.board().board.source.run(lambda store: deliveries(store, receipts))
    assert (found.states, str(found.looked), found.more) == ({}, "0", False)
    await sql_shop.put("shop_orders", id=1, status="NEW")
    assert Order.spec.table == receipts.table
    found = await sql_shop.board().board.source.run(lambda store: deliveries(store, receipts))
    assert {state: str(count) for state, count in found.states.items()} == {"ready": "1"}


async def test_a_claim_without_its_index_says_so_only_where_there_are_more_rows_than_were_looked_at(
    sql_shop: Shop,
) -> None:
    await write(sql_shop, "DROP INDEX shop_orders_packing")
    await sql_shop.put("shop_orders", id=1, status="NEW")
    assert "no index for this claim" not in await text_of(sql_shop, "/claims")
    await write(
        sql_shop,
        "WITH RECURSIVE s(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM s WHERE n < 2001) "
        "INSERT INTO shop_orders (id, status) SELECT n, 'NEW' FROM s",
    )
    assert "no index for this claim: among the last 2,000 rows by key" in await text_of(sql_shop, "/claims")
    assert " 0+ stuck now" in await text_of(sql_shop, "/")
