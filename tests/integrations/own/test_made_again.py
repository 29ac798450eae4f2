"""What PostgreSQL gives up for another transaction, at higher isolation, is simply made again where it stood alone (P7)."""

import asyncio
from typing import Any

import asyncpg
import psycopg
import pytest

from raceproof import AsyncStore, DeliveryRecorded, SendPermit, bind
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.jobs import jobs, put
from raceproof.testing.contract.pictures import pictures
from tests.fix_waiting import until_blocked


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_who_changes_the_row_meanwhile_does_not_undo_a_mark(postgres_server: PostgresServer, level: str) -> None:
    """Where each statement is a transaction with a snapshot of its own, it is simply made again."""
    settings: Any = {"default_transaction_isolation": level}
    own = await asyncpg.connect(postgres_server.url, server_settings=settings)
    beside = psycopg.connect(postgres_server.url, autocommit=True)

    def run(text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        cursor = beside.execute(text.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    db = bind(own)
    delivery, spec = pictures(PostgresGround(Caller(db), run), True)
    permit = await db.begin_delivery(delivery, "a")
    assert isinstance(permit, SendPermit)
    with psycopg.connect(postgres_server.url) as rival:
        rival.execute(f"UPDATE {spec.table} SET kind = 'y'".encode())
        marking = asyncio.create_task(db.delivered(permit))
        await until_blocked(run, spec.table)
        rival.commit()
        assert isinstance(await marking, DeliveryRecorded)
    await own.close()
    beside.close()


async def test_a_claim_that_somebody_else_was_quicker_than_is_made_again(
    postgres_server: PostgresServer,
) -> None:
    """Eight workers at once: each row is claimed once, and no worker hears of a conflict."""
    settings: Any = {"default_transaction_isolation": "repeatable read"}
    connections = [await asyncpg.connect(postgres_server.url, server_settings=settings) for _ in range(8)]
    with psycopg.connect(postgres_server.url, autocommit=True) as beside:

        def run(text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
            cursor = beside.execute(text.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

        stores = [bind(one) for one in connections]
        ground = PostgresGround(Caller(stores[0]), run)
        job = jobs(ground)
        keys = [f"j{number:03}" for number in range(80)]
        await put(ground, job, *keys)

        async def claimed(db: AsyncStore) -> list[str]:
            found = []
            while claims := await db.claim(job.claims["work"], 1):
                found += [one.key for one in claims]
            return found

        taken = await asyncio.gather(*map(claimed, stores))
    assert sorted(key for found in taken for key in found) == keys
    for one in connections:
        await one.close()
