"""A9: a balance changes once for each event and never below zero, whatever races."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from imagebot import money
from imagebot.lifecycle import Job
from imagebot.services import DatabaseService
from imagebot.tables import transactions, user_balances
from raceproof import Conflict

USER = 7


async def order(service: DatabaseService, number: int, user: int = USER) -> str:
    job = await service.jobs.begin(f"j{number}", user, user, "a lighthouse")
    return str(job["job_id"])


async def sums(service: DatabaseService, user: int = USER) -> tuple[int, int]:
    """By the ledger; compared with the balance."""
    async with service.database.read() as connection:
        entries = await connection.execute(select(transactions).where(transactions.c.user_id == user))
        rows = entries.mappings().all()
    told = sum(row["amount"] for row in rows), sum(row["held"] for row in rows)
    assert told == await service.accounts.balance(user)
    return told


async def test_a_hundred_confirmations_of_one_order_hold_its_price_once(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    job_id = await order(service, 1)
    answers = await asyncio.gather(*(service.jobs.confirm(job_id, USER, 5) for _ in range(30)))
    assert answers.count("confirmed") == 1
    assert set(answers) == {"confirmed", "already"}
    assert await sums(service) == (1500, 500)


async def test_orders_beyond_the_balance_are_refused_and_stay_open(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    async with service.transaction() as (connection, _):
        for number in range(10):
            values = {"job_id": f"j{number}", "user_id": USER, "chat_id": USER, "status": "confirming"}
            row = {**values, "price": 500, "prompt": "x", "model": "z-image", "aspect_ratio": "1:1"}
            await _insert(connection, row)
    answers = await asyncio.gather(*(service.jobs.confirm(f"j{number}", USER, 5) for number in range(10)))
    assert sorted(answers) == ["confirmed"] * 4 + ["not enough"] * 6
    assert await sums(service) == (0, 2000)


async def _insert(connection: Any, row: dict[str, Any]) -> None:
    from appkit.database import store_now
    from imagebot.tables import generation_jobs

    await connection.execute(generation_jobs.insert().values(**row, watch="watched", made_at=store_now(connection)))


async def test_the_naive_balance_goes_below_zero(service: DatabaseService) -> None:
    """The control: who looks first and writes later spends the same money twice."""
    await service.accounts.language_of(USER, USER, "en")
    barrier = asyncio.Barrier(2)
    spent = 0

    async def naive() -> None:
        nonlocal spent
        balance, _ = await service.accounts.balance(USER)
        await barrier.wait()
        if balance >= 1500:
            spent += 1500

    await asyncio.gather(naive(), naive())
    assert spent > 2000


async def test_a_reference_brings_money_once(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    won = await asyncio.gather(*(service.accounts.grant(USER, 100, "grant:1", "admin") for _ in range(10)))
    assert won.count(True) == 1
    assert await sums(service) == (2100, 0)


async def test_a_topup_is_approved_once_by_two_admins_at_the_same_time(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    await service.accounts.begin_topup("t1", USER)
    assert (await service.accounts.ask_topup("t1", USER, 10_000)).won
    assert not (await service.accounts.ask_topup("t1", USER, 50_000)).won
    answers = await asyncio.gather(*(service.accounts.end_topup("t1", True, f"admin {n}") for n in range(8)))
    assert sum(answer.won for answer in answers) == 1
    assert not (await service.accounts.end_topup("t1", False, "admin")).won
    assert await sums(service) == (12_000, 0)


async def test_nobody_confirms_cancels_or_tops_up_for_another(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    await service.accounts.language_of(8, 8, "en")
    job_id = await order(service, 1)
    assert await service.jobs.confirm(job_id, 8, 5) == "gone"
    assert not (await service.jobs.cancel(job_id, 8)).won
    await service.accounts.begin_topup("t1", USER)
    assert not (await service.accounts.ask_topup("t1", 8, 10_000)).won
    assert await sums(service) == (2000, 0)
    assert await sums(service, 8) == (2000, 0)


async def test_a_refund_and_another_refund_give_back_once(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    job_id = await order(service, 1)
    await service.jobs.confirm(job_id, USER, 5)
    assert not (await service.jobs.refund(job_id, "admin", "too early")).won
    for move in (Job.start, Job.lose_sight):
        (await service.store.move(move, job_id)).must()
    answers = await asyncio.gather(*(service.jobs.refund(job_id, "admin", "why not") for _ in range(8)))
    assert sum(answer.won for answer in answers if not isinstance(answer, Conflict)) == 1
    assert await sums(service) == (2000, 0)


async def test_the_database_itself_refuses_a_balance_below_zero(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    with pytest.raises(Exception, match=r"(?i)check"):
        async with service.transaction() as (connection, _):
            await connection.execute(user_balances.update().values(balance=-1))


async def test_an_entry_that_does_not_reach_leaves_nothing(service: DatabaseService) -> None:
    await service.accounts.language_of(USER, USER, "en")
    with pytest.raises(money.NotEnough):
        async with service.transaction() as (connection, _):
            await money.credit(connection, USER, -5000, "theft:1", "theft", "nobody")
    assert await sums(service) == (2000, 0)
