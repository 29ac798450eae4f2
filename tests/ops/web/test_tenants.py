"""A dashboard for one tenant: every route is asked for its own rows and for those of another, and shows its own alone."""

import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import pytest
from starlette.routing import Route

from raceproof import connect
from raceproof.kernel import events
from raceproof.ops.doctor import diagnose
from raceproof.ops.doctor.races import races
from raceproof.ops.doctor.snapshot import snapshot
from raceproof.ops.sweep import sweep
from raceproof.ops.web import Dashboard
from raceproof.ops.web.routes import ROUTES
from tests.ops.web import mall
from tests.ops.web.fix_mall import CANARY, MINE, OTHER, Mall, began, happen_at, happen_to_anybody
from tests.ops.web.fix_shop import item, served, visitor
from tests.ops.web.mall import Parcel

OURS = {"Origin": "http://shop.test"}
NAMES = ("Parcel", "Visit", "Login", "Ticket", "Inbox")


class Ask(NamedTuple):
    """One request; `form` for those that would change something."""

    path: str
    form: dict[str, Any] | None = None


def pages(path: str, **choices: list[Any]) -> list[Ask]:
    """A page, and the page with each of these words in its URL."""
    return [Ask(path)] + [
        Ask(f"{path}?{urlencode({name: value}, doseq=True)}") for name, values in choices.items() for value in values
    ]


def change(action: str, **fields: Any) -> Ask:
    return Ask(f"/do/{action}", {"reason": "a good reason", **fields})


# for each route what somebody could ask who would like to see, or to change, what is not theirs
ASKED: dict[str, list[Ask]] = {
    "static": [Ask(f"/static/{name}") for name in ("dashboard.css", "diagram.css", "dashboard.js", "icon.svg")],
    "login": [Ask("/login", {"token": "x"})],
    "live": [Ask("/live")],
    "overview": pages("/"),
    "find": pages("/find", q=["1", "3", f"{OTHER},3", f"{OTHER},1", f"{MINE},3", f"{MINE}:3", "mall-guard"]),
    "lifecycle": [
        Ask(f"/lifecycle?{urlencode({'of': name, **more}, doseq=True)}")
        for name in NAMES
        for more in ({}, {"status": "NEW"}, {"status": "open"}, {"before": [OTHER, "9"]}, {"before": ["~", "~"]})
    ],
    "item": [
        Ask(item(name, *parts))
        for name, *parts in (
            ("Parcel", OTHER, "3"), ("Parcel", OTHER, "1"), ("Parcel", OTHER, "strange"), ("Parcel", MINE, "3"),
            ("Parcel", MINE, "5"), ("Visit", OTHER, f"v-1-{CANARY}"), ("Login", OTHER, f"login-{CANARY}"),
            ("Ticket", f"1-{CANARY}"), ("Inbox", f"source {CANARY}", f"1-{CANARY}"),
        )
    ],
    "claims": pages("/claims", only=["over"]),
    "stuck": pages("/stuck"),
    "delivery": pages("/delivery", of=["letter", "poster"]),
    "attempts": pages("/attempts", owner=[OTHER, MINE, "guest other", "double other"]),
    "leader": pages("/leader", span=["5m", "1h"]),
    "inbox": pages("/inbox"),
    "races": pages("/races", of=list(NAMES), show=["losers"], table=["mall_history"], before=["1", "1000000"]),
    "audit": pages("/audit", before=["1000000", "9999999999999-0"]),
    "doctor": pages("/doctor"),
    "bulk": [Ask(f"/bulk?{urlencode({'of': name, 'move': 'finish'})}") for name in NAMES] + pages("/bulk"),
    "plan": [Ask("/bulk/no-such-plan")],
    "move": [
        change("move", of="Parcel", key=[OTHER, "4"], move="send"),
        change("move", of="Ticket", key=[f"2-{CANARY}"], move="finish"),
        change("move", of="Inbox", key=[f"source {CANARY}", f"1-{CANARY}"], move="revive"),
    ],
    "release": [change("release", claim="Parcel.packing", key=[OTHER, "1"], fence=str(fence)) for fence in (1, 2)],
    "resolve": [
        change("resolve", delivery="letter", key=[OTHER, "4"], arrived="yes"),
        change("resolve", delivery="poster", key=[f"2-{CANARY}"], arrived="yes"),
    ],
    "revive": [change("revive", inbox="mall_inbox", key=[f"source {CANARY}", f"1-{CANARY}"])],
    "freeze": [
        change("plan", of="Parcel", move="send", keys=f"{OTHER},4"),
        change("plan", of="Parcel", move="send", status="NEW"),
        change("plan", of="Parcel", move="fail", status=f"LOST {CANARY}"),
        change("plan", of="Ticket", move="finish", status="open"),
    ],
    "apply": [change("apply", plan="no-such-plan")],
    "logout": [change("logout")],
}  # fmt: skip

# where a dashboard for everybody shows the canary: what the walk looks for is really there
SHOWN = [
    "/", "/races", "/lifecycle?of=Parcel", "/lifecycle?of=Visit", "/lifecycle?of=Login", "/lifecycle?of=Ticket", "/claims",
    "/stuck", "/delivery", "/attempts", "/leader", "/inbox", "/audit", "/doctor", item("Parcel", OTHER, "3"),
]  # fmt: skip


@pytest.fixture
def whole(any_mall: Mall) -> Dashboard:
    """A dashboard for everybody."""
    return any_mall.dashboard(any_mall.store)


@pytest.fixture
async def limited(any_mall: Mall, whole: Dashboard) -> Dashboard:
    """A dashboard for one of the two shops, opened before anything happened at either of them."""
    board = any_mall.dashboard(any_mall.store.for_tenant(MINE))
    await happen_at(any_mall, MINE, "own")
    await happen_at(any_mall, OTHER, CANARY)
    await happen_to_anybody(any_mall.store, any_mall)
    async with visitor(whole) as desk:
        for shop, key, reason in ((OTHER, "2", f"because {CANARY}"), (MINE, "2", "because own")):
            form = {"of": "Parcel", "key": [shop, key], "move": "fail", "reason": reason}
            answer = await desk.post("/do/move", data={**form, "csrf": await token_of(desk)}, headers=OURS)
            assert answer.status_code == 303, answer.text
    return board


async def token_of(client: httpx.AsyncClient) -> str:
    text = (await client.get("/bulk?of=Parcel&move=send")).text
    return text.partition('name="csrf" value="')[2].partition('"')[0]


def leaks(answer: httpx.Response, asked: str) -> list[str]:
    """Lines that show anything of the other tenant, but for what the question itself said."""
    text = f"{answer.headers} {unescape(answer.text)}"
    found = [line for line in text.splitlines() if CANARY in line]
    return found + [line for line in text.splitlines() if OTHER in line and OTHER not in asked]


@pytest.mark.usefixtures("limited")
async def test_a_dashboard_for_everybody_shows_the_canary(whole: Dashboard) -> None:
    """Otherwise the walk would prove nothing."""
    async with visitor(whole) as desk:
        for path in SHOWN:
            assert CANARY in (await desk.get(path)).text, f"no canary on {path}"


def test_every_route_of_the_application_is_walked(any_mall: Mall) -> None:
    board = any_mall.dashboard(any_mall.store.for_tenant(MINE))
    routes = {route.name for route in board.routes if isinstance(route, Route)}
    assert len(routes) == len(board.routes)
    assert routes == set(ASKED) == {entry.name for entry in ROUTES}


async def test_no_route_shows_or_changes_anything_of_another_tenant(limited: Dashboard, any_mall: Mall) -> None:
    before = await any_mall.rows()
    async with visitor(limited) as client:
        token = await token_of(client)
        for name, asks in ASKED.items():
            for path, form in asks:
                if name == "live":
                    continue  # it does not end; see below
                if form is None:
                    answer = await client.get(path)
                else:
                    answer = await client.post(path, data={**form, "csrf": token}, headers=OURS)
                detail = " ".join(value for _, value in httpx.QueryParams(httpx.URL(path).query).multi_items())
                assert leaks(answer, detail) == [], f"{name} {path} {form}"
                assert answer.status_code < 500, f"{name} {path} {form}"
                if answer.status_code == 303:
                    followed = await client.get(answer.headers["location"])
                    assert leaks(followed, detail) == [], f"{name} {path} {form}"
    assert await any_mall.rows() == before


async def test_no_page_that_a_link_leads_to_shows_anything_of_another_tenant(limited: Dashboard) -> None:
    waiting, seen = ["/"], set[str]()
    async with visitor(limited) as client:
        while waiting:
            path = waiting.pop()
            if path in seen or not path.startswith("/"):
                continue
            seen.add(path)
            answer = await client.get(path)
            assert (answer.status_code, leaks(answer, "")) == (200, []), path
            waiting += [unescape(one).partition("#")[0] for one in re.findall(r'href="([^"]+)"', answer.text)]
    assert item("Parcel", MINE, "3") in seen
    assert len(seen) > 30


async def test_a_page_for_one_tenant_says_what_it_leaves_out_and_why(limited: Dashboard) -> None:
    async with visitor(limited) as client:
        for path in ("/", "/leader", "/inbox"):
            page = unescape((await client.get(path)).text)
            assert "Only rows of tenant <b>north</b> are shown." in page
            assert "lifecycle Ticket; delivery poster; lease mall-guard; inbox mall_inbox." in page
        assert "Not shown for one tenant: mall-guard" in unescape((await client.get("/leader")).text)
        assert "Not shown for one tenant: mall_inbox" in unescape((await client.get("/inbox")).text)
        assert (await client.get("/lifecycle?of=Ticket")).status_code == 404


async def test_a_page_for_one_tenant_shows_its_own_rows(limited: Dashboard, any_mall: Mall) -> None:
    wanted = {
        "/races": "sender own",
        "/claims": "packer own",
        "/stuck": "postman own",
        "/delivery": "timeout own",
        "/attempts": "guest own",
        "/attempts?owner=north": "login-2-own",
        "/audit": "because own",
        "/doctor": "LOST own",
        item("Parcel", MINE, "3"): "sender own",
        item("Parcel", MINE, "5"): "Also in this process",
    }
    async with visitor(limited) as client:
        for path, text in wanted.items():
            assert text in unescape((await client.get(path)).text), path


async def test_the_stream_of_changes_tells_one_tenant_nothing_of_another(limited: Dashboard, any_mall: Mall) -> None:
    async with served(limited) as url, httpx.AsyncClient() as client:
        async with client.stream("GET", f"{url}/live") as answer:
            lines = answer.aiter_lines()
            detail = [await anext(lines) for _ in range(4)]
    assert detail == ["retry: 2000", "", "event: changed", "data: changed"]
    look = limited.board.pages._look
    before = await look()
    await any_mall.store.for_tenant(OTHER).move(Parcel.send, "4", by=CANARY)
    assert await look() == before
    await any_mall.store.for_tenant(MINE).move(Parcel.send, "4", by="own")
    assert await look() != before


async def test_a_dashboard_on_a_url_with_a_tenant_is_limited_too(any_mall: Mall) -> None:
    await happen_at(any_mall, OTHER, CANARY)
    await happen_at(any_mall, MINE, "own")
    async with visitor(any_mall.dashboard(connect(any_mall.url, tenant=MINE))) as client:
        page = unescape((await client.get("/lifecycle?of=Parcel")).text)
        assert ("p-own" in page, CANARY in page, OTHER in page) == (True, False, False)


async def test_an_audit_table_without_a_tenant_column_is_not_shown_to_one_tenant(any_mall: Mall) -> None:
    if any_mall.store.dialect == "redis":
        await any_mall.raw.xadd(
            "raceproof_audit",
            dict.fromkeys(("call", "actor", "action", "target", "key", "reason", "outcome", "detail"), CANARY)
            | {"at": "1790000000.0"},
        )
    else:
        columns = "call, actor, action, target, key, reason, outcome, detail"
        marks = ", ".join([f"'{CANARY}'"] * 8)
        for text in (
            "ALTER TABLE raceproof_audit DROP COLUMN tenant",
            f"INSERT INTO raceproof_audit ({columns}) VALUES ({marks})",
        ):
            made = any_mall.raw.execute(text)
            if any_mall.store.dialect == "postgres":
                await made
    await any_mall.put("mall_parcels", shop=MINE, id="1", status="NEW", rev=0)
    whole, limited = any_mall.dashboard(any_mall.store), any_mall.dashboard(any_mall.store.for_tenant(MINE))
    form = {"of": "Parcel", "key": [MINE, "1"], "move": "send", "reason": "a good reason"}
    async with visitor(whole) as everybody, visitor(limited) as client:
        assert CANARY in (await everybody.get("/audit")).text
        page = unescape((await client.get("/audit")).text)
        assert CANARY not in page
        if any_mall.store.dialect != "redis":
            assert 'ALTER TABLE "raceproof_audit" ADD COLUMN tenant' in page
            answer = await client.post("/do/move", data={**form, "csrf": await token_of(client)}, headers=OURS)
            assert (answer.status_code, "lacks its tenant column" in unescape(answer.text)) == (503, True)
        await limited.board.audit.create()
        answer = await client.post("/do/move", data={**form, "csrf": await token_of(client)}, headers=OURS)
        assert answer.status_code == 303
        assert "a good reason" in (await client.get("/audit")).text


async def test_an_event_says_whose_row_it_was(any_mall: Mall) -> None:
    heard: list[events.Event] = []
    with events.subscribed(heard.append):
        await happen_at(any_mall, OTHER, "x")
        assert {one.tenant for one in heard} == {OTHER}
        heard.clear()
        store = any_mall.store
        claim: Any = await store.for_tenant(OTHER).claim_one(Parcel.packing, "4")
        await store.renew(claim)
        await store.release(claim)
        await store.move_many(Parcel.send, await store.for_tenant(OTHER).claim(Parcel.packing, 1))
        await store.start_attempt(mall.logins, OTHER, "late")
        assert {one.operation for one in heard} == {"claim", "renew", "release", "move", "start"}
        assert {one.tenant for one in heard} == {OTHER}
        heard.clear()
        await happen_to_anybody(store, any_mall)
        assert {one.tenant for one in heard} == {None}


async def test_the_doctor_and_the_terminal_view_of_one_tenant_show_its_own_rows(
    any_mall: Mall, cli: Callable[..., Any]
) -> None:
    await happen_at(any_mall, MINE, "own")
    await happen_at(any_mall, OTHER, CANARY)
    flags = ("--app", mall.__name__, "--url", any_mall.url)
    targets = ("Parcel", "Visit", "Login", "letters", "visits", "logins")
    whole = cli("doctor", *flags, *targets, "-o", "json")
    assert CANARY in whole.stdout
    mine = cli("doctor", *flags, "--tenant", MINE, *targets, "-o", "json")
    assert (CANARY in mine.output, OTHER in mine.output) == (False, False)
    found = json.loads(mine.stdout)["problems"]
    strange = next(one for one in found if one["check"] == "status")
    assert [row.get("id", row.get("key")) for row in strange["evidence"]] == [
        f"{MINE}:strange" if any_mall.store.dialect == "redis" else "strange"
    ]
    assert any("double own" in str(one["evidence"]) for one in found if one["check"] == "owner")
    with connect(any_mall.url, tenant=MINE) as store:
        seen = snapshot(store, Parcel, mall.letters, mall.logins)
        assert sum(one.number for one in seen.states if one.target == "Parcel") == 7  # and one that is strange
        assert seen.deliveries["letter"] == {"reserved": 0, "sending": 0, "uncertain": 1}
        decided = races(store, mall.Parcel, mall.Visit)
        assert {one.actor for one in decided} >= {"sender own", "loser own"}
        assert CANARY not in repr(decided)


async def test_a_repair_of_one_tenants_rows_leaves_the_rows_of_others_alone(any_mall: Mall) -> None:
    for shop, mark in ((MINE, "own"), (OTHER, CANARY)):
        await happen_at(any_mall, shop, mark)
        await any_mall.put("mall_logins", shop=shop, id="overdue", status="open", began_at=began(any_mall))
    before = await any_mall.rows()
    with connect(any_mall.url, tenant=MINE) as store:
        (status,) = [one for one in diagnose(store, Parcel).problems if one.check == "status"]
        assert status.repair
        if any_mall.store.dialect == "postgres":
            await any_mall.raw.execute(status.repair.text)
        elif any_mall.store.dialect == "sqlite":
            any_mall.raw.executescript(status.repair.text)
        else:
            for words in status.repair.steps:
                await any_mall.raw.execute_command(*words)
        assert (store.read(Parcel, "strange") or {})["status"] == "NEW"
        sweep(store, mall.logins)
        if any_mall.store.dialect != "redis":  # where keys end by themselves
            assert (store.read(mall.Login, "overdue") or {})["status"] == "expired"
    assert await any_mall.rows() == before


async def test_a_row_shows_no_decision_about_another_tenants_row_of_the_same_key(any_mall: Mall) -> None:
    board = any_mall.dashboard(any_mall.store)
    await happen_at(any_mall, OTHER, CANARY)
    await any_mall.put("mall_parcels", shop=MINE, id="5", status="NEW", rev=0)
    async with visitor(board) as client:
        assert CANARY in (await client.get(item("Parcel", OTHER, "5"))).text
        assert CANARY not in (await client.get(item("Parcel", MINE, "5"))).text
