"""Each page on each kind of store, with things that have happened; and what a hostile text does to it, which is nothing."""

import re
from html import unescape
from inspect import isawaitable
from pathlib import Path
from typing import Any

import httpx
import pytest

from raceproof.ops.web.queries.rows import MOST, PAGE, Count
from raceproof.ops.web.routes import ROUTES, Rule
from tests.ops.web.fix_shop import CANARY, HOSTILE, Shop, happen, item, postgres_shop, sqlite_shop, visitor
from tests.ops.web.shop import Order, receipts

# what must be on it: on every store, and where the store can be searched by time
PAGES: dict[str, tuple[list[str], list[str]]] = {
    "/": (["Order", "shop-bot", "instance-b", "NEW"], ["refused", "late worker"]),
    "/races": ([], ["customer", "late worker", "it requires NEW or PACKING, but the row was at SHIPPED"]),
    "/races?show=losers": ([], ["packer-7", "ship by", "desk"]),
    "/stuck": (
        ["Order.packing", "its lease has expired", "outcome unknown"],
        ["dead after 2 attempts"],
    ),
    "/claims": (["packer-1", "packer-2", "expired", "3 attempts"], []),
    "/delivery": (["receipt", "uncertain", "policy: hold", "timeout"], []),
    "/attempts": (["login-1", "login-2", "eve", "superseded", "active"], []),
    "/attempts?owner=eve": (["login-2", "active"], []),
    "/leader": (["shop-bot", "instance-b", "epoch"], []),
    "/inbox": (["shop_inbox", "event-1", "received"], ["dead"]),
    "/bulk?of=Order&move=cancel": (["Freeze a plan", "NEW, PACKING → CANCELLED"], []),
    "/audit": (["No changes yet"], []),
    "/doctor": (["Checked"], []),
    "/lifecycle?of=Order": (["put_back", "SHIPPED", "<svg"], ["✗"]),
    "/lifecycle?of=Order&status=CANCELLED": (["Rows", "key=12"], []),
    "/lifecycle?of=Line": (["No rows in shop_lines"], []),
    item("Login", "login-1"): (["History", "superseded", "late worker", "Won by"], []),
    item("Inbox", "kie", "event-1"): (["received", "•••"], []),
    "/find?q=no-such": (["No row has the key"], []),
}


async def test_every_page_shows_what_has_happened_and_escapes_it(any_shop: Shop) -> None:
    board = any_shop.board(may_change=True)
    on_redis = any_shop.store.dialect == "redis"
    async with visitor(board) as client:
        for path, (everywhere, searched) in PAGES.items():
            answer = await client.get(path)
            assert answer.status_code == (404 if path.startswith("/find") else 200), path
            text = unescape(answer.text)
            for word in everywhere + ([] if on_redis else searched):
                assert word in text, f"{word!r} is not on {path}"
            assert 'class="trouble"' not in answer.text, path
            assert "<script>alert" not in answer.text, path
            assert '<b>"' not in answer.text, path
            assert CANARY not in answer.text, path
            assert " style=" not in answer.text, path
            assert not re.search(r"<script(?![^>]* src=)", answer.text), path
            assert not re.search(r"\son[a-z]+=", answer.text), path
        shown = unescape((await client.get(item("Order", 12))).text)
        assert HOSTILE in shown
        assert (await client.get("/find?q=12")).status_code == 303
        if on_redis:
            assert "Redis stores the history of each row with the row" in (await client.get("/races")).text


async def test_the_pages_of_the_test_are_the_pages_of_the_dashboard() -> None:
    walked = {re.split(r"[?]", path)[0] for path in PAGES}
    assert walked == {entry.path for entry in ROUTES if entry.rule is Rule.LOOK} - {"/live", "/bulk/{plan}"}


async def test_a_loser_stands_beside_its_winner_with_the_reason(any_shop: Shop) -> None:
    async with visitor(any_shop.board()) as client:
        shipped = await client.get("/lifecycle?of=Order&status=SHIPPED")
        key = re.findall(r"key=(\d+)", shipped.text)[0]
        page = unescape(re.sub(r"<[^>]+>", "", (await client.get(item("Order", key))).text))
    words = " ".join(page.split())
    assert re.search(r"cancel refused SHIPPED → CANCELLED .* by customer", words)
    assert "it requires NEW or PACKING, but the row was at SHIPPED. Won by desk with ship" in words


@pytest.mark.parametrize(
    "path",
    [
        "/item?of=Order&key=999999", "/item?of=Order&key=nonsense", "/item?of=Order", "/item?of=Nothing&key=1",
        "/item?of=Order&key=1&key=2", "/item?of=Order&key=%00", "/lifecycle?of=Nothing", "/bulk/none", "/nothing",
        "/static/../app.py", "/static/secret.txt", "/item?of=Order&key=99999999999999999999999999",
    ],
)  # fmt: skip
async def test_what_is_not_there_is_not_found(small_shop: Shop, path: str) -> None:
    async with visitor(small_shop.board()) as client:
        assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/lifecycle?of=Order&status=%27%22",
        "/races?before=5&table=y",
        "/audit?before=5",
    ],
)
async def test_a_strange_url_is_answered(any_shop: Shop, path: str) -> None:
    async with visitor(any_shop.board()) as client:
        assert (await client.get(path)).status_code == 200


async def test_a_missing_table_spoils_its_own_part_of_a_page_alone(small_shop: Shop) -> None:
    small_shop.raw.execute("DROP TABLE shop_logins")
    async with visitor(small_shop.board()) as client:
        page = await client.get("/")
        assert page.status_code == 200
        assert "could not be read" in page.text
        assert "shop-bot" in page.text


async def test_many_rows_come_in_pages_by_key_and_counts_stop_at_a_bound(tmp_path: Any) -> None:
    async with sqlite_shop(tmp_path) as made:
        rows = ((number, "NEW" if number > 3 else "PACKED") for number in range(1, MOST + 200))
        made.raw.execute("BEGIN")
        made.raw.executemany("INSERT INTO shop_orders (id, status) VALUES (?, ?)", rows)
        made.raw.execute("COMMIT")
        board = made.board()
        async with visitor(board) as client:
            page = unescape((await client.get("/lifecycle?of=Order")).text)
            assert "of the last 10,000 by key" in page
            assert "CREATE INDEX" in page
            seen: list[int] = []
            path = "/lifecycle?of=Order"
            for _ in range(3):
                text = unescape((await client.get(path)).text)
                seen += map(int, re.findall(r'href="/item\?of=Order&key=(\d+)"', text))
                path = re.findall(r'rel="next" href="([^"#]+)', text)[0]
            assert seen == list(range(MOST + 199, MOST + 199 - 3 * PAGE, -1))
            # a status that is rare and without an index is looked for in windows, each with a link to the next
            path, found, windows = "/lifecycle?of=Order&status=PACKED", [], 0
            while path:
                text = unescape((await client.get(path)).text)
                found += re.findall(r'href="/item\?of=Order&key=(\d+)"', text)
                path = (re.findall(r'rel="next" href="([^"#]+)', text) or [""])[0]
                windows += 1
            assert found == ["3", "2", "1"]
            assert windows == 3
            made.raw.execute("CREATE INDEX by_status ON shop_orders (status)")
            board.board.source.forget()
            page = unescape((await client.get("/lifecycle?of=Order&status=PACKED")).text)
            assert re.findall(r'href="/item\?of=Order&key=(\d+)"', page) == ["3", "2", "1"]
            assert "10,000+" in page
            assert 'rel="next"' not in page
        await board.close()
    assert str(Count(10_000, more=True)) == "10,000+"


async def test_one_tenant_sees_its_own_rows_alone(small_shop: Shop) -> None:
    for shop_name in ("north", "south"):
        await small_shop.put("shop_lines", shop=shop_name, order_id=1, place=2, status="open")
    whole = small_shop.board()
    async with visitor(whole) as client:
        assert "south" in (await client.get("/lifecycle?of=Line")).text
        assert (await client.get(item("Line", "south", 1, 2))).status_code == 200
    small_shop.store = small_shop.store.for_tenant("north")
    async with visitor(small_shop.board()) as client:
        page = (await client.get("/lifecycle?of=Line")).text
        assert "north" in page
        assert "south" not in page
        assert (await client.get(item("Line", "north", 1, 2))).status_code == 200
        assert (await client.get(item("Line", "south", 1, 2))).status_code == 404


async def test_what_this_process_decides_is_seen_at_once(small_shop: Shop) -> None:
    board = small_shop.board()
    await small_shop.store.begin_delivery(receipts, 5, by="poller-9")
    await small_shop.store.move(Order.cancel, 5, by="somebody", reason="seen")
    async with visitor(board) as client:
        assert "poller-9" in (await client.get("/delivery")).text
        assert "poller-9" in (await client.get(item("Order", 5))).text
        assert "somebody" in (await client.get("/races")).text


async def test_open_pages_are_told_when_something_changes(small_shop: Shop) -> None:
    board = small_shop.board()
    words = board.board.pages.follow()
    assert (await anext(words)).startswith("retry")
    assert "changed" in await anext(words)
    await small_shop.store.move(Order.cancel, 6, by="somebody")
    told = await anext(words)
    while "changed" not in told:
        told = await anext(words)
    await words.aclose()


async def test_on_a_large_table_of_postgres_the_server_guesses_until_there_is_an_index(
    empty_postgres: str,
) -> None:
    async with postgres_shop(empty_postgres) as made:
        await made.raw.execute(
            "INSERT INTO shop_orders (id, status) SELECT n, CASE WHEN n > 5 THEN 'NEW' ELSE 'FAILED' END "
            f"FROM generate_series(1, {3 * MOST}) AS n"
        )
        board = made.board()
        async with visitor(board) as client:
            before = unescape((await client.get("/lifecycle?of=Order")).text)
            assert "of the last 10,000 by key" in before
            await made.raw.execute("ANALYZE shop_orders")
            board.board.source.forget()
            guessed = unescape((await client.get("/lifecycle?of=Order")).text)
            assert "the server's guess" in guessed
            assert re.search(r"≈ (29|30),\d{3}", guessed)
            await made.raw.execute("CREATE INDEX ON shop_orders (status)")
            board.board.source.forget()
            counted = unescape((await client.get("/lifecycle?of=Order&status=FAILED")).text)
            assert "could not be read" not in counted, counted.partition("could not be read")[2][:300]
            assert "≈" not in counted
            assert "10,000+" in counted
            assert re.findall(r'href="/item\?of=Order&key=(\d+)"', counted) == ["5", "4", "3", "2", "1"]
        await board.close()


async def test_with_the_indexes_that_the_pages_ask_for_they_show_the_same(empty_postgres: str, tmp_path: Path) -> None:
    for opening in (postgres_shop(empty_postgres), sqlite_shop(tmp_path)):
        async with opening as made:
            await happen(made)
            board = made.board()
            async with visitor(board) as client:
                seen = []
                for _ in range(2):
                    board.board.source.forget()
                    seen.append([_main(await client.get(path)) for path in ("/delivery", "/attempts", "/stuck")])
                    for column in ("receipt_at", "status"):
                        done = made.raw.execute(f"CREATE INDEX IF NOT EXISTS by_{column} ON shop_orders ({column})")
                        await done if isawaitable(done) else done
                    done = made.raw.execute("CREATE INDEX IF NOT EXISTS by_start ON shop_logins (began_at)")
                    await done if isawaitable(done) else done
                assert seen[0] == seen[1]
                assert "uncertain" in seen[0][0]
                assert "login-2" in seen[0][1]
            await board.close()


def _main(answer: httpx.Response) -> str:
    """The words of a page, but for how long ago things were."""
    main = unescape(re.sub(r"<time[^>]*>[^<]*</time>|<[^>]+>", " ", answer.text.partition("<main")[2]))
    return " ".join(main.split())
