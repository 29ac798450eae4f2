"""The changes that a person may make: through the library's own guards, with a reason, an audit line, and a fence."""

import re
from html import unescape
from typing import Any

import httpx

from raceproof import Claim, Lost, Moved
from tests.ops.web.fix_shop import CANARY, Shop, item, visitor
from tests.ops.web.shop import Login, Order, events, receipts
from tests.ops.web.test_access import OURS, form, token_of


async def do(client: httpx.AsyncClient, path: str, **fields: Any) -> str:
    """Send a form as its page would, follow it, and give back the words of the page after it."""
    token = await token_of(client)
    answer = await client.post(path, data={"csrf": token, "reason": "I know why", **fields}, headers=OURS)
    assert answer.status_code == 303, answer.text
    page = await client.get(answer.headers["location"])
    assert page.status_code == 200
    assert CANARY not in page.text
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


async def audit(client: httpx.AsyncClient) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", (await client.get("/audit")).text)).split())


async def test_a_legal_move_is_made_and_one_that_lost_its_race_is_not(any_shop: Shop) -> None:
    async with visitor(any_shop.board(may_change=True)) as ann:
        page = (await ann.get(item("Order", 7))).text
        assert re.findall(r'name="move" value="(\w+)"', page) == ["start", "cancel", "give_up"]
        told = await do(ann, "/do/move", of="Order", key="7", move="cancel")
        assert "moved Order.cancel" in told
        assert "I know why" in told
        again = await do(ann, "/do/move", of="Order", key="7", move="give_up")
        assert "refused" in again
        assert re.findall(r'name="move" value="(\w+)"', (await ann.get(item("Order", 7))).text) == []
        lines = await audit(ann)
        assert "ann move cancel Order 7 I know why moved" in lines
        assert "ann move give_up Order 7 I know why refused" in lines
    history = await any_shop.store.history(Order, any_shop.key(7))
    assert [(one.actor, one.reason, one.outcome) for one in history] == [
        ("ann", "I know why", "refused"),
        ("ann", "I know why", "moved"),
    ]


async def test_releasing_a_claim_fences_its_holder(any_shop: Shop) -> None:
    db = any_shop.store
    (held,) = await db.claim(Order.packing, 1, by="slow worker")
    parts = str(held.key)
    async with visitor(any_shop.board(may_change=True)) as ann:
        stale = await do(ann, "/do/release", claim="Order.packing", key=parts, fence="1", back="item")
        assert "lost" in stale
        told = await do(ann, "/do/release", claim="Order.packing", key=parts, fence=str(held.fence))
        assert "released" in told
        assert f"ann release Order.packing {parts} I know why released" in await audit(ann)
    late = await db.move(Order.pack, held, by="slow worker")
    assert isinstance(late, Lost)
    row = await db.read(Order, held.key)
    assert row is not None
    assert (row["status"], int(row["tries"])) == ("NEW", held.attempt - 1)
    again = await db.claim_one(Order.packing, held.key, by="next worker")
    assert isinstance(again, Claim)
    assert isinstance(await db.move(Order.pack, again), Moved)


async def test_an_uncertain_delivery_is_resolved_once(any_shop: Shop) -> None:
    async with visitor(any_shop.board(may_change=True)) as ann:
        told = await do(ann, "/do/resolve", delivery="receipt", key="11", arrived="no")
        assert "failed" in told
        again = await do(ann, "/do/resolve", delivery="receipt", key="11", arrived="yes")
        assert "failed" in again
        assert "resolve: not arrived receipt 11 I know why failed" in await audit(ann)
    permit = await any_shop.store.begin_delivery(receipts, any_shop.key(11), by="poller")
    assert permit.won


async def test_a_dead_event_is_revived_with_all_its_attempts(any_shop: Shop) -> None:
    db = any_shop.store
    key = ("kie", "event-0")
    row = await db.read(events.lifecycle, key)
    assert row is not None
    assert row["status"] == "dead"
    async with visitor(any_shop.board(may_change=True)) as ann:
        told = await do(ann, "/do/revive", inbox="shop_inbox", key=list(key))
        assert "moved" in told
        assert "ann revive inbox shop_inbox kie · event-0 I know why moved" in await audit(ann)
    claimed = await db.claim_one(events.work, key, by="worker") if db.dialect != "redis" else None
    assert claimed is None or isinstance(claimed, Claim)
    row = await db.read(events.lifecycle, key)
    assert row is not None
    assert row["status"] in ("received", "processing")


async def test_a_plan_is_frozen_and_leaves_alone_what_has_changed_since(any_shop: Shop) -> None:
    db = any_shop.store
    async with visitor(any_shop.board(may_change=True)) as ann:
        preview = await do(ann, "/do/plan", of="Order", move="cancel", keys="6\n7\n8\n12\n4711")
        assert "3 would move" in preview
        assert "1 there already" in preview
        assert "1 not found" in preview
        plan = re.findall(r"/bulk/([\w-]+)\"", (await ann.get("/bulk")).text)[0]
        # both there and back again: the same status, and another revision
        assert isinstance(await db.move(Order.start, any_shop.key(7), by="packer"), Moved)
        assert isinstance(await db.move(Order.put_back, any_shop.key(7), by="packer"), Moved)
        report = await do(ann, "/do/apply", plan=plan)
        assert "2 moved" in report
        assert "1 changed since" in report
        token = await token_of(ann)
        again = await ann.post("/do/apply", data=form(token, plan=plan), headers=OURS)
        assert again.status_code == 409
        assert "ann bulk cancel Order 3 rows I know why done 2 moved, 1 changed since" in await audit(ann)
    statuses = {}
    for number in (6, 7, 8):
        row = await db.read(Order, any_shop.key(number))
        assert row is not None
        statuses[number] = row["status"]
    assert statuses == {6: "CANCELLED", 7: "NEW", 8: "CANCELLED"}


async def test_a_plan_without_revisions_is_frozen_by_the_status(small_shop: Shop) -> None:
    db = small_shop.store
    async with visitor(small_shop.board(may_change=True)) as ann:
        preview = await do(ann, "/do/plan", of="Login", move="finish", status="pending")
        assert "1 would move" in preview
        await db.move(Login.expire, "login-2", by="clock")
        plan = re.findall(r"/bulk/([\w-]+)\"", (await ann.get("/bulk")).text)[0]
        assert "1 changed since" in await do(ann, "/do/apply", plan=plan)


async def test_a_plan_is_seen_and_applied_by_its_maker_alone(small_shop: Shop) -> None:
    board = small_shop.board(may_change=True)
    async with visitor(board) as ann:
        await do(ann, "/do/plan", of="Order", move="cancel", keys="6")
        plan = board.board.plans.all()[0]
        plan.actor = "bob"
        assert (await ann.get(f"/bulk/{plan.id}")).status_code == 404
        token = await token_of(ann)
        assert (await ann.post("/do/apply", data=form(token, plan=plan.id), headers=OURS)).status_code == 404


async def test_what_came_of_a_change_cannot_be_written_into_a_link(small_shop: Shop) -> None:
    async with visitor(small_shop.board(may_change=True)) as ann:
        page = (await ann.get(item("Order", 6) + "&done=moved&told=send+money+to")).text
        assert "send money" not in page
        assert 'class="done"' not in page
