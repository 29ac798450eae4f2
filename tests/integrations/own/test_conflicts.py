"""Where PostgreSQL gives up a transaction for another, the answer is Conflict, a value, on every kind of connection (L2)."""

import asyncio
from typing import Any

import psycopg
import pytest

from raceproof import Conflict, Moved, Started
from raceproof.declare import Spec
from raceproof.kernel.errors import CallError
from raceproof.testing import PostgresServer
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.orders import orders
from tests.ddl import script
from tests.fix_waiting import until_blocked
from tests.integrations.own.fix_kinds import POSTGRES_IN_TRANSACTION, Case

pytestmark = pytest.mark.parametrize("case", POSTGRES_IN_TRANSACTION, indirect=True)
ONE_SNAPSHOT = pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])


def prepared(case: Case, **options: Any) -> Spec[str]:
    order = orders(**options)
    case.ground.table(order)
    for key in "ab":
        case.ground.put(order, key, "NEW")
    return order


@pytest.mark.parametrize(("level", "history"), [("REPEATABLE READ", True), ("SERIALIZABLE", False)])
async def test_a_row_that_changed_since_the_snapshot_is_a_conflict(case: Case, level: str, history: bool) -> None:
    """The transaction cannot see what it would have to decide on; the caller runs it again and it works."""
    order = prepared(case, history=history)
    await case.own.begin()
    await case.own.run(f"SET TRANSACTION ISOLATION LEVEL {level}")
    assert await case.own.run(f"SELECT count(*) FROM {order.table}") == [(2,)]
    case.ground.run(f"UPDATE {order.table} SET packer = 'somebody' WHERE order_id = 'a'")
    answer = await case.db.move(order.moves["pack"], "a")
    assert isinstance(answer, Conflict)
    assert (answer.key, answer.won, answer.reached) == ("a", False, False)
    assert "run the transaction again" in str(answer)
    await case.own.rollback()
    assert case.ground.get(order, "a")["status"] == "NEW"
    await case.own.begin()
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)
    await case.own.commit()
    assert case.ground.get(order, "a")["status"] == "PACKED"


async def test_a_bulk_over_a_row_that_changed_is_a_conflict_for_all(case: Case) -> None:
    """None of its rows was written."""
    order = prepared(case, history=True)
    await case.own.begin()
    await case.own.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    await case.db.move_many(order.moves["take_back"], ["a"])
    case.ground.run(f"UPDATE {order.table} SET packer = 'somebody' WHERE order_id = 'b'")
    answers = await case.db.move_many(order.moves["pack"], ["a", "b"])
    assert [type(answer) for answer in answers] == [Conflict, Conflict]
    await case.own.rollback()
    assert [case.ground.get(order, key)["status"] for key in "ab"] == ["NEW", "NEW"]


async def test_a_write_skew_is_a_conflict_or_ends_in_the_commit(case: Case) -> None:
    """Two serializable transactions read what the other one moves: they cannot both come through."""
    order = prepared(case)
    count = f"SELECT count(*) FROM {order.table} WHERE status = 'NEW'"
    await case.own.begin()
    await case.own.run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    await case.own.run(count)
    case.ground.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
    case.ground.run(count)
    case.ground.run(f"UPDATE {order.table} SET status = 'FAILED' WHERE order_id = 'b'")
    case.ground.run("COMMIT")
    answer = await case.db.move(order.moves["fail"], "a")
    assert isinstance(answer, Conflict)
    await case.own.rollback()
    assert [case.ground.get(order, key)["status"] for key in "ab"] == ["NEW", "FAILED"]


async def test_a_deadlock_is_a_conflict(case: Case, postgres_server: PostgresServer) -> None:
    """The one that PostgreSQL chooses as the victim gets a value; the other one's update goes through."""
    order = prepared(case)
    with psycopg.connect(postgres_server.url) as rival:
        rival.execute("SET deadlock_timeout = '1h'")
        rival.execute(f"UPDATE {order.table} SET packer = 'rival' WHERE order_id = 'b'".encode())
        await case.own.begin()
        await case.own.run("SET LOCAL deadlock_timeout = '1ms'")
        await case.own.run(f"UPDATE {order.table} SET packer = 'own' WHERE order_id = 'a'")
        waiting = asyncio.create_task(
            asyncio.to_thread(rival.execute, f"UPDATE {order.table} SET packer = 'rival' WHERE order_id = 'a'".encode())
        )
        await until_blocked(case.ground.run, order.table)
        answer = await case.db.move(order.moves["pack"], "b")
        assert isinstance(answer, Conflict)
        await case.own.rollback()
        await waiting
        rival.commit()
    assert [case.ground.get(order, key)["packer"] for key in "ab"] == ["rival", "rival"]
    assert [case.ground.get(order, key)["status"] for key in "ab"] == ["NEW", "NEW"]


@ONE_SNAPSHOT
@pytest.mark.parametrize("tenant", [None, "shop"])
async def test_an_attempt_that_was_started_since_the_snapshot_is_a_conflict(
    case: Case, level: str, tenant: str | None
) -> None:
    """P9: it cannot be seen, so the unique index refuses the second one; the transaction is run again and ends the first."""
    attempts, login = logins(case.ground, tenant=tenant)
    case.ground.run(script(attempts, dialect="postgres", only="indexes"))
    db = case.db.for_tenant("red")
    await case.own.begin()
    await case.own.run(f"SET TRANSACTION ISOLATION LEVEL {level}")
    assert await case.own.run(f"SELECT count(*) FROM {login.table}") == [(0,)]
    key = ("red", "a1") if tenant else "a1"
    case.ground.put(login, key, "pending", owner="ann")
    if tenant:
        case.ground.put(login, ("blue", "a1"), "pending", owner="ann")  # another one's, which is in nobody's way
    answer = await db.start_attempt(attempts, "ann", "a2")
    assert isinstance(answer, Conflict)
    assert "run the transaction again" in str(answer)
    await case.own.rollback()
    await case.own.begin()
    await case.own.run(f"SET TRANSACTION ISOLATION LEVEL {level}")
    again = await db.start_attempt(attempts, "ann", "a2")
    assert isinstance(again, Started)
    assert again.superseded == "a1"
    await case.own.commit()
    assert case.ground.get(login, key)["status"] == "superseded"


@ONE_SNAPSHOT
async def test_an_attempt_that_nothing_would_refuse_is_not_started(case: Case, level: str) -> None:
    """P9: without the index, and without seeing what others do, there could be two open ones. The error says what to do."""
    attempts, login = logins(case.ground)
    # an index, but not of all statuses that are open
    case.ground.run(f"CREATE UNIQUE INDEX ON {login.table} (owner) WHERE status = 'pending'")
    await case.own.begin()
    await case.own.run(f"SET TRANSACTION ISOLATION LEVEL {level}")
    with pytest.raises(CallError, match=f"at {level}, so it cannot see"):
        await case.db.start_attempt(attempts, "ann", "a1")
    await case.own.rollback()
    await case.own.begin()
    assert isinstance(await case.db.start_attempt(attempts, "ann", "a1"), Started)
    await case.own.commit()
