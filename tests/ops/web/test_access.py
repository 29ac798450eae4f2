"""Who may do what: one gate, and every route walked through it."""

from enum import StrEnum
from html import unescape
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from raceproof import Lifecycle, column, move
from raceproof.ops.web import Access, dashboard
from raceproof.ops.web.routes import ROUTES, Rule
from raceproof.ops.web.token import TokenAccess
from tests.ops.web import shop
from tests.ops.web.fix_shop import CANARY, Shop, item, visitor
from tests.ops.web.shop import Order

OURS = {"Origin": "http://shop.test"}
CHANGES = [entry for entry in ROUTES if entry.rule is Rule.CHANGE]
LOOKS = [entry for entry in ROUTES if entry.rule is Rule.LOOK]


async def token_of(client: httpx.AsyncClient, page: str = "/bulk?of=Order&move=cancel") -> str:
    """Load a page with a form, as a browser would, and take its token."""
    text = (await client.get(page)).text
    return text.partition('name="csrf" value="')[2].partition('"')[0]


def form(token: str, **fields: Any) -> dict[str, Any]:
    """A form that would do something, if it were let in."""
    return {
        "csrf": token, "of": "Order", "key": "12", "move": "cancel", "reason": "a good reason", "keys": "9",
        "claim": "Order.packing", "delivery": "receipt", "arrived": "yes", "inbox": "shop_inbox", "plan": "x", **fields,
    }  # fmt: skip


async def everything(made: Shop) -> list[Any]:
    """All rows of the store, to see that nothing was changed."""
    tables = ("shop_orders", "shop_history", "shop_logins", "shop_inbox", "shop_leases", "raceproof_audit")
    return [made.raw.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]


def test_every_route_is_in_the_table_and_every_change_is_a_post(small_shop: Shop) -> None:
    board = small_shop.board()
    routes = [route for route in board.routes if isinstance(route, Route)]
    assert {(route.path, route.name) for route in routes} == {(entry.path, entry.name) for entry in ROUTES}
    assert len(routes) == len(board.routes) == len(ROUTES)
    assert all(entry.method == "POST" for entry in CHANGES)
    assert [entry.path for entry in ROUTES if entry.method == "POST" and entry.rule is not Rule.CHANGE] == [
        "/login",
        "/logout",
    ]
    assert {entry.path for entry in ROUTES if entry.rule is Rule.OPEN} == {
        "/static/{file}",
        "/login",
        "/logout",
    }
    assert len(CHANGES) >= 6


async def test_every_change_is_refused_for_a_reader_from_elsewhere_and_without_token(
    small_shop: Shop,
) -> None:
    reader, writer = (small_shop.board(may_change=may, secret="shared") for may in (False, True))
    before = await everything(small_shop)
    async with visitor(reader) as looks, visitor(writer) as changes, visitor(writer) as stranger:
        token = await token_of(changes)
        assert len(token) == 64
        looks.cookies.update(changes.cookies)  # the same person's, from when they still might
        for entry in CHANGES:
            tries = {
                "a reader": await looks.post(entry.path, data=form(token), headers=OURS),
                "another origin": await changes.post(
                    entry.path, data=form(token), headers={"Origin": "http://evil.test"}
                ),
                "a page of another site": await changes.post(
                    entry.path, data=form(token), headers={**OURS, "Sec-Fetch-Site": "cross-site"}
                ),
                "a sibling": await changes.post(entry.path, data=form(token), headers={"Sec-Fetch-Site": "same-site"}),
                "nowhere": await changes.post(entry.path, data=form(token)),
                "an opaque origin": await changes.post(entry.path, data=form(token), headers={"Origin": "null"}),
                "no token": await changes.post(entry.path, data=form(""), headers=OURS),
                "a wrong token": await changes.post(entry.path, data=form("0" * 64), headers=OURS),
                "another browser's token": await stranger.post(entry.path, data=form(token), headers=OURS),
            }
            for who, answer in tries.items():
                assert answer.status_code == 403, f"{entry.path} from {who}: {answer.status_code}"
            assert (await changes.get(entry.path)).status_code == 405
            as_json = await changes.post(entry.path, json=form(token), headers=OURS)
            assert as_json.status_code == 415
    assert await everything(small_shop) == before


async def test_every_page_is_refused_for_somebody_who_may_not_look(small_shop: Shop) -> None:
    closed = dashboard(small_shop.store, shop, authorize=lambda request: None)
    small_shop.boards.append(closed)
    async with visitor(closed) as nobody:
        for entry in LOOKS + CHANGES:
            path = entry.path.replace("{plan}", "x")
            answer = await nobody.request(entry.method, path, headers=OURS)
            assert answer.status_code == 401, entry.path
            assert "Order" not in answer.text
            assert "shop_orders" not in answer.text


async def test_without_authorize_everybody_looks_and_nobody_changes(small_shop: Shop) -> None:
    board = dashboard(small_shop.store, shop, hosts=["shop.test"])
    small_shop.boards.append(board)
    async with visitor(board) as anybody:
        page = await anybody.get(item("Order", 5))
        assert page.status_code == 200
        assert "read-only" in page.text
        assert "/do/" not in page.text.replace('action="/do/move"', "")
        assert "<button>" not in page.text.partition('<main id="main"')[2].partition("</main>")[0]
        assert (await anybody.post("/do/move", data=form(""), headers=OURS)).status_code == 403


async def test_a_change_needs_a_reason_and_an_audit(small_shop: Shop) -> None:
    async with visitor(small_shop.board(may_change=True)) as ann:
        token = await token_of(ann)
        for reason in ("", "  ", "x"):
            answer = await ann.post("/do/move", data=form(token, key="5", reason=reason), headers=OURS)
            assert answer.status_code == 400
        small_shop.raw.execute("ALTER TABLE raceproof_audit RENAME TO elsewhere")
        answer = await ann.post("/do/move", data=form(token, key="5"), headers=OURS)
        assert answer.status_code == 503
        assert "changes require an audit" in answer.text
        assert "CREATE TABLE" in (await ann.get("/audit")).text
    row = await small_shop.store.read(Order, 5)
    assert row is not None
    assert row["status"] == "NEW"


async def test_the_token_of_the_command_line_is_asked_for_once_and_never_in_a_cookie(
    small_shop: Shop,
) -> None:
    door = TokenAccess("a long enough token", "ann", may_change=True)
    board = dashboard(small_shop.store, shop, authorize=door, hosts=["shop.test"])
    small_shop.boards.append(board)
    assert "a long enough token" not in repr(door)
    async with visitor(board) as ann:
        assert (await ann.get("/")).status_code == 401
        wrong = await ann.post("/login", data={"token": "a long enough tokem"}, headers=OURS)
        assert wrong.status_code == 401
        assert (await ann.post("/login", data={"token": "a long enough token"})).status_code == 403
        assert (await ann.get("/", headers={"Authorization": "Bearer a long enough token"})).status_code == 200
        right = await ann.post("/login", data={"token": "a long enough token"}, headers=OURS)
        assert right.status_code == 303
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "a long enough token" not in cookie
        assert (await ann.get("/")).status_code == 200
        rebound = await ann.get("/", headers={"Host": "evil.test"})
        assert rebound.status_code == 421


@pytest.mark.parametrize("path", ["/", "/static/dashboard.js", "/nothing", "/item?of=Order&key=nonsense", "/do/move"])
async def test_every_answer_has_the_headers_that_keep_it_to_itself(small_shop: Shop, path: str) -> None:
    async with visitor(small_shop.board()) as client:
        headers = (await client.get(path)).headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_form_that_is_too_large_or_no_text_is_refused(small_shop: Shop) -> None:
    async with visitor(small_shop.board(may_change=True)) as ann:
        token = await token_of(ann)
        large = await ann.post("/do/plan", data=form(token, keys="9\n" * 200_000), headers=OURS)
        assert large.status_code == 413
        kind = {**OURS, "Content-Type": "application/x-www-form-urlencoded"}
        for body in (b"csrf=%00", b"csrf=%ff%fe", b"&".join([b"a=1"] * 5000)):
            assert (await ann.post("/do/plan", content=body, headers=kind)).status_code in (400, 403)


async def test_nothing_secret_is_shown_and_an_error_tells_no_password(small_shop: Shop) -> None:
    board = small_shop.board(hide=["note"])
    async with visitor(board) as client:
        for path in (item("Order", 5), item("Inbox", "kie", "event-1"), "/inbox", "/races"):
            page = (await client.get(path)).text
            assert CANARY not in page
        assert "•••" in (await client.get(item("Order", 5))).text
    lost = dashboard("postgresql://ann:very-secret@127.0.0.1:1/nothing?password=also-secret", shop, hosts=["*"])
    async with visitor(lost) as client:
        for path in ("/", "/claims", item("Order", 5), "/audit", "/doctor"):
            page = (await client.get(path)).text
            assert "secret" not in page.replace("hidden: its name looks like a secret", "")
    await lost.close()


class Door(StrEnum):
    SHUT = "shut"
    OPEN = "open"


class Vault(Lifecycle[Door], table="vaults", key="id"):
    """Opens for who knows its pin; a colleague's note is not for this page either."""

    by_pin = move(Door.SHUT, to=Door.OPEN, where=column("pin") == "expected-canary")
    by_note = move(Door.SHUT, to=Door.OPEN, where=column("note") == "noted-canary")


async def test_why_not_there_shows_no_value_of_a_hidden_or_secret_column(small_shop: Shop) -> None:
    """Neither what the row has, nor what the guard wants; also of a call that this process has seen."""
    small_shop.raw.execute("CREATE TABLE vaults (id text PRIMARY KEY, status text, pin text, note text)")
    small_shop.raw.execute("INSERT INTO vaults VALUES ('v', 'shut', 'pin-canary', 'note-canary')")
    board = dashboard(small_shop.store, Vault, hide=["note"], hosts=["shop.test"])
    small_shop.boards.append(board)
    guard = column("note") == "called-canary"
    assert (await small_shop.store.move(Vault.by_note, "v", where=guard)).outcome == "refused"
    async with visitor(board) as client:
        for path in (item("Vault", "v"), "/races", "/"):
            text = (await client.get(path)).text
            assert "canary" not in text, path
        page = unescape((await client.get(item("Vault", "v"))).text)
    assert "pin = •••" in page
    assert "note = •••" in page
    assert "the value is hidden" in page
    assert "a guard on note" in page


async def test_it_works_mounted_in_another_application_under_a_prefix(small_shop: Shop) -> None:
    board = small_shop.board(may_change=True)
    outer = Starlette(routes=[Mount("/ops/shop", app=board)])
    async with visitor(outer) as client:
        page = await client.get("/ops/shop/")
        assert page.status_code == 200
        links = [part.partition('"')[0] for part in page.text.split('href="')[1:]]
        assert links
        assert all(link.startswith(("/ops/shop/", "#")) for link in links)
        assert (await client.get("/ops/shop/static/dashboard.css")).status_code == 200
        token = await token_of(client, "/ops/shop/bulk?of=Order&move=cancel")
        answer = await client.post("/ops/shop/do/move", data=form(token, key="5"), headers=OURS)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/ops/shop/item?")
    async with visitor(board, root="/behind/a/proxy") as client:
        assert 'href="/behind/a/proxy/races"' in (await client.get("/behind/a/proxy/")).text


async def test_what_authorize_says_may_be_awaited(small_shop: Shop) -> None:
    async def ask(request: Any) -> Access:
        return Access(request.headers["x-user"], may_change=True)

    board = dashboard(small_shop.store, shop, authorize=ask)
    small_shop.boards.append(board)
    async with visitor(board) as client:
        client.headers["x-user"] = "bob"
        token = await token_of(client)
        assert (await client.post("/do/move", data=form(token, key="5"), headers=OURS)).status_code == 303
        client.headers["x-user"] = "mallory"
        assert (await client.post("/do/move", data=form(token, key="6"), headers=OURS)).status_code == 403
    history = await small_shop.store.history(Order, 5)
    assert (history[0].actor, history[0].reason) == ("bob", "a good reason")
