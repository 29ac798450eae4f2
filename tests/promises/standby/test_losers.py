"""Whoever gets an answer has waited for the commit it rests on (P1, P3, P5, P7–P10), with a real synchronous standby.

The first call decides and its commit waits for the standby. Then it is cancelled, and PostgreSQL shows its rows although
the standby does not have them. The second call loses to what it sees: it may not be answered before the standby has it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from raceproof import AsyncStore, Inbox, bind, connect
from raceproof.inbox import Arrival
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import PostgresGround, fresh_name
from raceproof.testing.contract.inbox import an_inbox
from raceproof.testing.contract.jobs import jobs, put
from raceproof.testing.contract.leases import a_lease
from raceproof.testing.contract.orders import orders
from raceproof.testing.contract.pictures import pictures
from tests.fix_told import told
from tests.fix_waiting import until
from tests.promises.standby.fix_standby import Pair

Call = Callable[[AsyncStore], Awaitable[Any]]


@dataclass
class Case:
    """Two calls of which the second loses, and what it is answered."""

    first: Call
    second: Call
    outcome: str


async def moved_by_another(ground: PostgresGround, second: str, outcome: str) -> Case:
    order = orders(history=True)
    ground.table(order)
    ground.put(order, "a", "NEW")
    return Case(
        lambda db: db.move(order.moves["pack"], "a", call="first"),
        lambda db: db.move(order.moves[second], "a", call="first" if outcome == "moved" else None),
        outcome,
    )


async def moved_with_many(ground: PostgresGround) -> Case:
    order = orders()
    ground.table(order)
    for key in "ab":
        ground.put(order, key, "NEW")
    return Case(
        lambda db: db.move_many(order.moves["pack"], ["a", "b"]),
        lambda db: db.move_many(order.moves["pack"], ["b", "a"]),
        "already",
    )


async def claimed_by_another(ground: PostgresGround, second: str, outcome: str) -> Case:
    job = jobs(ground)
    work, finish = job.claims["work"], job.moves["finish"]
    await put(ground, job, "a")
    if second == "claim":
        return Case(
            lambda db: db.claim_one(work, "a", by="ann", now=NOON),
            lambda db: db.claim_one(work, "a", by="bob", now=after(1)),
            outcome,
        )
    mine = await ground.db.claim_one(work, "a", by="bob", now=NOON)
    calls: dict[str, Call] = {
        "renew": lambda db: db.renew([mine], now=after(61)),
        "release": lambda db: db.release([mine], now=after(61)),
        "finish": lambda db: db.move(finish, mine, now=after(61)),
        "finish many": lambda db: db.move_many(finish, [mine], now=after(61)),
    }
    return Case(lambda db: db.claim_one(work, "a", by="ann", now=after(60)), calls[second], outcome)


async def sent_by_another(ground: PostgresGround, second: str, outcome: str) -> Case:
    delivery, _ = pictures(ground, True, policy="hold" if second == "resolve" else "resend")
    if second == "take":
        return Case(
            lambda db: db.begin_delivery(delivery, "a", now=NOON),
            lambda db: db.begin_delivery(delivery, "a", now=after(1)),
            outcome,
        )
    mine = await ground.db.begin_delivery(delivery, "a", now=NOON)
    if second == "mark":
        return Case(
            lambda db: db.begin_delivery(delivery, "a", now=after(1000)),
            lambda db: db.delivered(mine, now=after(1001)),
            outcome,
        )
    return Case(
        lambda db: db.delivered(mine, now=after(1000)),
        lambda db: db.resolve(delivery, "a", arrived=False, now=after(1001)),
        outcome,
    )


async def started_by_another(ground: PostgresGround, when_open: Any, outcome: str) -> Case:
    attempts, _ = logins(ground)
    key = "first" if outcome == "started" else "second"
    return Case(
        lambda db: db.start_attempt(attempts, "ann", "first", now=NOON),
        lambda db: db.start_attempt(attempts, "ann", key, when_open=when_open, now=after(1)),
        outcome,
    )


async def led_by_another(ground: PostgresGround, second: str) -> Case:
    lease = a_lease(ground)
    if second == "lead":
        return Case(
            lambda db: db.acquire_lease(lease, "ann", now=NOON),
            lambda db: db.acquire_lease(lease, "bob", now=after(1)),
            "held by another",
        )
    mine = await ground.db.acquire_lease(lease, "bob", now=NOON)
    calls: dict[str, Call] = {
        "renew_lease": lambda db: db.renew_lease(mine, now=after(61)),
        "release_lease": lambda db: db.release_lease(mine, now=after(61)),
    }
    return Case(lambda db: db.acquire_lease(lease, "ann", now=after(60)), calls[second], "held by another")


async def received_by_another(ground: PostgresGround, how: str) -> Case:
    inbox = an_inbox(ground)
    one, two = Arrival("t", "1", b"{}"), Arrival("t", "2", b"{}")
    if how == "many":
        return Case(
            lambda db: db.receive_many(inbox, [one, two]),
            lambda db: db.receive_many(inbox, [two, one, two]),
            "duplicate",
        )
    return Case(lambda db: db.receive(inbox, one), lambda db: db.receive(inbox, one), "duplicate")


CASES: dict[str, Callable[[PostgresGround], Awaitable[Case]]] = {
    "move already": lambda ground: moved_by_another(ground, "pack", "already"),
    "move refused": lambda ground: moved_by_another(ground, "take_back", "refused"),
    "move repeated": lambda ground: moved_by_another(ground, "pack", "moved"),
    "move_many": moved_with_many,
    "claim_one": lambda ground: claimed_by_another(ground, "claim", "taken"),
    "renew": lambda ground: claimed_by_another(ground, "renew", "lost"),
    "release": lambda ground: claimed_by_another(ground, "release", "lost"),
    "finish": lambda ground: claimed_by_another(ground, "finish", "lost"),
    "finish many": lambda ground: claimed_by_another(ground, "finish many", "lost"),
    "begin_delivery": lambda ground: sent_by_another(ground, "take", "sending"),
    "delivered": lambda ground: sent_by_another(ground, "mark", "lost"),
    "resolve": lambda ground: sent_by_another(ground, "resolve", "delivered"),
    "start_attempt rejected": lambda ground: started_by_another(ground, "reject", "rejected"),
    "start_attempt kept": lambda ground: started_by_another(ground, "keep", "already active"),
    "start_attempt repeated": lambda ground: started_by_another(ground, "supersede", "started"),
    "lead": lambda ground: led_by_another(ground, "lead"),
    "renew_lease": lambda ground: led_by_another(ground, "renew_lease"),
    "release_lease": lambda ground: led_by_another(ground, "release_lease"),
    "receive": lambda ground: received_by_another(ground, "one"),
    "receive_many": lambda ground: received_by_another(ground, "many"),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_loser_waits_for_the_commit_that_its_answer_rests_on(
    pair: Pair, ground: PostgresGround, name: str
) -> None:
    """Its answer comes when the standby has what it lost to, and not before."""
    case = await CASES[name](ground)
    ann, bob = await asyncpg.connect(pair.primary.url), await asyncpg.connect(pair.primary.url)
    try:
        with pair.held():
            first = asyncio.create_task(told(case.first(bind(ann))))
            await until(lambda: bool(pair.waiting()), "the first commit waits for the standby")
            pair.show_unreplicated()
            await first
            second = asyncio.create_task(told(case.second(bind(bob))))
            await until(lambda: second.done() or bool(pair.waiting()), "the second has an answer or waits")
            assert not second.done(), f"answered before the standby knows: {second.result()}"
        answer = await second
    finally:
        await ann.close()
        await bob.close()
    for one in answer if isinstance(answer, list) else [answer]:
        assert one.outcome == case.outcome, one


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
async def test_a_loser_of_a_shared_statement_waits_as_well(pair: Pair, ground: PostgresGround, together: bool) -> None:
    """Calls on `connect` that share a statement wait like those that are alone."""
    order = orders()
    ground.table(order)
    keys = [f"k{number}" for number in range(5 if together else 1)]
    for key in keys:
        ground.put(order, key, "NEW")
    ann = await asyncpg.connect(pair.primary.url)
    try:
        async with connect(pair.primary.url) as db:
            with pair.held():
                first = asyncio.create_task(told(bind(ann).move_many(order.moves["pack"], keys)))
                await until(lambda: bool(pair.waiting()), "the first commit waits for the standby")
                pair.show_unreplicated()
                await first
                calls = [asyncio.create_task(told(db.move(order.moves["pack"], key))) for key in keys]
                wanted = min(len(calls), 2)
                await until(
                    lambda: any(one.done() for one in calls) or len(pair.waiting()) >= wanted,
                    "someone is answered, or a lone call and a shared statement wait",
                )
                assert not any(one.done() for one in calls)
            answers = await asyncio.gather(*calls)
    finally:
        await ann.close()
    assert [one.outcome for one in answers] == ["already"] * len(keys)


async def test_no_answer_is_given_that_the_new_primary_contradicts(mortal_pair: Pair) -> None:
    """Primary killed, standby promoted: who lost to what is gone got an error, and asks the new primary again."""
    pair = mortal_pair
    ground = PostgresGround(None, pair.run)  # type: ignore[arg-type]
    inbox, order = Inbox(fresh_name("inbox")), orders()
    ground.inbox_table(inbox)
    ground.table(order)
    ground.put(order, "a", "NEW")
    event = Arrival("t", "1", b"{}")
    sessions = [await asyncpg.connect(pair.primary.url) for _ in range(4)]
    stores = [bind(one) for one in sessions]
    pair.link.hold()
    firsts = [
        asyncio.create_task(told(stores[0].receive(inbox, event))),
        asyncio.create_task(told(stores[1].move(order.moves["pack"], "a"))),
    ]
    await until(lambda: len(pair.waiting()) == 2, "both commits wait")
    pair.show_unreplicated()
    await asyncio.gather(*firsts)
    assert pair.run(f"SELECT count(*) FROM {inbox.table}") == [(1,)]
    seconds = [
        asyncio.create_task(told(stores[2].receive(inbox, event))),
        asyncio.create_task(told(stores[3].move(order.moves["take_back"], "a"))),
    ]
    await until(lambda: any(one.done() for one in seconds) or len(pair.waiting()) == 2, "both wait, or are answered")
    await asyncio.to_thread(pair.fail_over)
    received, refused = await asyncio.gather(*seconds)
    assert isinstance(received, Exception), received
    assert refused.outcome == "unknown"
    for one in sessions:
        one.terminate()
    async with connect(pair.url) as db:
        assert await db.read(inbox.lifecycle, ("t", "1")) is None
        assert not (await db.receive(inbox, event)).duplicate
        assert (await db.move(order.moves["pack"], "a")).outcome == "moved"
