"""A commit that the standby has not confirmed is unknown, though the server reports success with a warning (P1, P8, P12)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from raceproof import AsyncStore, Unknown, bind
from raceproof.inbox import Arrival
from raceproof.kernel.errors import NotReplicated
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.inbox import an_inbox
from raceproof.testing.contract.orders import orders
from tests.fix_beside import postgres_beside
from tests.fix_told import told
from tests.fix_waiting import until
from tests.promises.standby.fix_kinds import ASYNC, SYNC, opened
from tests.promises.standby.fix_standby import Pair


async def cancelled_from_outside(pair: Pair, store: Any, call: Callable[[Any], Any]) -> Any:
    """What a call says whose commit waits for the standby until an administrator or a pooler cancels the wait."""
    with pair.held():
        if isinstance(store, AsyncStore):
            task = asyncio.create_task(told(call(store)))
            await until(lambda: bool(pair.waiting()), "the commit waits for the standby")
            pair.show_unreplicated()
            return await task

        def cancel() -> None:
            while not pair.waiting():
                pass
            pair.show_unreplicated()

        # sync stores stay in the thread that they belong to
        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            return call(store)
        except Exception as error:
            return error
        finally:
            thread.join()


@pytest.mark.parametrize("repeat", [None, "mine"], ids=["one statement", "a transaction"])
@pytest.mark.parametrize("kind", [*SYNC, *ASYNC, "django"])
async def test_a_move_that_the_standby_has_not_confirmed_is_unknown(
    pair: Pair, ground: PostgresGround, kind: str, repeat: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, it is answered when the standby has it."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    order = orders(history=True)
    ground.table(order)
    ground.put(order, "a", "NEW")
    async with opened(kind, pair.primary.url) as store:
        answer = await cancelled_from_outside(pair, store, lambda db: db.move(order.moves["pack"], "a", call=repeat))
        assert isinstance(answer, Unknown), answer
        assert isinstance(answer.cause, NotReplicated)
        assert (await Caller(store).move(order.moves["pack"], "a", call=answer.call)).outcome == "moved"


@pytest.mark.parametrize("kind", ["asyncpg", "psycopg", "connect-async"])
async def test_an_event_that_the_standby_has_not_confirmed_is_not_received(
    pair: Pair, ground: PostgresGround, kind: str
) -> None:
    """An error, so the sender is not answered with 200 and brings it again."""
    inbox = an_inbox(ground)
    event = Arrival("t", "1", b"{}")
    async with opened(kind, pair.primary.url) as store:
        answer = await cancelled_from_outside(pair, store, lambda db: db.receive(inbox, event))
        assert isinstance(answer, NotReplicated), answer
        assert (await Caller(store).receive(inbox, event)).duplicate


def test_a_warning_of_a_trigger_leaves_the_answer_alone(postgres_server: PostgresServer) -> None:
    """It has the same SQLSTATE and says nothing about the commit."""
    with (
        postgres_beside(postgres_server.url) as ground,
        psycopg.connect(postgres_server.url, autocommit=True) as own,
    ):
        order = orders()
        ground.table(order)
        ground.put(order, "a", "NEW")
        ground.run(
            f"CREATE FUNCTION warn_{order.table}() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN RAISE WARNING ''canceling wait for synchronous replication''; RETURN NEW; END'"
        )
        ground.run(
            f"CREATE TRIGGER warning BEFORE UPDATE ON {order.table} FOR EACH ROW EXECUTE FUNCTION warn_{order.table}()"
        )
        heard: list[Any] = []
        own.add_notice_handler(heard.append)
        assert bind(own).move(order.moves["pack"], "a").outcome == "moved"
        assert len(heard) == 1
