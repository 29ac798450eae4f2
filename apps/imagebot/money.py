"""The ledger: a balance changes once for each reference, together with the move that it belongs to, or not at all.

Every function runs in the caller's transaction, after its move: a job's row is locked before its user's balance, always.
"""

from typing import Any

from sqlalchemy import update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import store_now
from imagebot.tables import transactions, user_balances


class NotEnough(Exception):
    """The balance does not reach: whoever raised this has changed nothing, and the transaction must not be committed."""


async def open_account(connection: AsyncConnection, user_id: int, currency: str) -> None:
    """An empty balance, unless there is one."""
    made = insert_into(connection, user_balances).values(user_id=user_id, balance=0, held=0, currency=currency)
    await connection.execute(made.on_conflict_do_nothing())


async def credit(connection: AsyncConnection, user_id: int, amount: int, reference: str, kind: str, by: str) -> bool:
    """Money comes in; False if this reference has brought it before."""
    return await _enter(connection, reference, user_id, kind, amount=amount, by=by)


async def hold(connection: AsyncConnection, job: Any, by: str) -> None:
    """Put the price aside when an order is confirmed."""
    await _enter_job(connection, "hold", job, by, amount=-job["price"], held=job["price"])


async def charge(connection: AsyncConnection, job: Any, by: str) -> None:
    """It was delivered: what was held is spent."""
    await _enter_job(connection, "charge", job, by, held=-job["price"])


async def release(connection: AsyncConnection, job: Any, by: str) -> None:
    """It will not be delivered: what was held can be spent again."""
    await _enter_job(connection, "release", job, by, amount=job["price"], held=-job["price"])


async def refund(connection: AsyncConnection, job: Any, by: str) -> None:
    """It was delivered and paid for, and the money goes back all the same."""
    await _enter_job(connection, "refund", job, by, amount=job["price"])


async def _enter_job(connection: AsyncConnection, kind: str, job: Any, by: str, amount: int = 0, held: int = 0) -> None:
    reference = f"{kind}:{job['job_id']}"
    await _enter(connection, reference, job["user_id"], kind, amount, held, job["job_id"], by)


async def _enter(
    connection: AsyncConnection,
    reference: str,
    user_id: int,
    kind: str,
    amount: int = 0,
    held: int = 0,
    job_id: str | None = None,
    by: str = "",
) -> bool:
    entry = {
        "reference": reference,
        "user_id": user_id,
        "kind": kind,
        "amount": amount,
        "held": held,
        "job_id": job_id,
        "made_by": by,
        "made_at": store_now(connection),
    }
    made = insert_into(connection, transactions).values(**entry)
    made = made.on_conflict_do_nothing(index_elements=["reference"]).returning(transactions.c.reference)
    if (await connection.execute(made)).first() is None:
        return False
    changed = await connection.execute(
        update(user_balances)
        .where(
            user_balances.c.user_id == user_id,
            user_balances.c.balance + amount >= 0,
            user_balances.c.held + held >= 0,
        )
        .values(balance=user_balances.c.balance + amount, held=user_balances.c.held + held)
        .returning(user_balances.c.balance)
    )
    if changed.first() is None:
        raise NotEnough(f"the balance of {user_id} does not reach for {reference}")
    return True


def insert_into(connection: AsyncConnection, table: Any) -> Any:
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)
