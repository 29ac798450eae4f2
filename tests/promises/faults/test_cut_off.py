"""Connections that break at other moments: in the caller's transaction, while reading, between two statements (L3, P12)."""

import asyncio
from typing import Any

import asyncpg
import psycopg
import pytest
import redis

from raceproof import Moved, Unknown
from raceproof.kernel.events import Event, subscribed
from tests.fix_told import says_nothing_was_kept, told
from tests.promises.faults.fix_cut import BOUND, CONNECT, POSTGRES, REDIS, Faulty

DRIVERS_OWN = (asyncpg.PostgresError, asyncpg.InterfaceError, psycopg.Error, redis.RedisError, OSError)


async def begin(faulty: Faulty) -> Any:
    """Open a transaction on the caller's connection; returns what rolls it back."""
    if faulty.kind == "asyncpg":
        transaction = faulty.connection.transaction()
        await transaction.start()
        return transaction
    begun = faulty.connection.execute("BEGIN")
    if asyncio.iscoroutine(begun):
        await begun
    return None


@pytest.mark.parametrize("faulty", ["asyncpg", "psycopg", "psycopg-async"], indirect=True)
@pytest.mark.parametrize("how", ["cut_after_reply", "cut_before_request"])
async def test_in_the_callers_transaction_a_cut_is_an_error(faulty: Faulty, how: str) -> None:
    """The transaction is gone with the connection, so there is nothing unknown about it: nothing was kept."""
    order = await faulty.prepared(("a", "NEW"), ("b", "NEW"), history=True)
    await begin(faulty)
    assert isinstance(await faulty.db.move(order.moves["pack"], "b"), Moved)
    getattr(faulty.proxy, how)()
    with pytest.raises(DRIVERS_OWN) as failure:
        await faulty.db.move(order.moves["pack"], "a")
    assert says_nothing_was_kept(failure.value)
    assert [faulty.row(order, key) for key in "ab"] == [("NEW", "0"), ("NEW", "0")]


@pytest.mark.parametrize("faulty", ["asyncpg", "psycopg", "psycopg-async"], indirect=True)
async def test_a_closed_connection_is_a_clear_error(faulty: Faulty) -> None:
    """The driver's own, with a note that names the row and says that nothing was kept."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    closed = faulty.connection.close()
    if asyncio.iscoroutine(closed):
        await closed
    for call in (None, "once"):
        with pytest.raises(DRIVERS_OWN, match="closed") as failure:
            await faulty.db.move(order.moves["pack"], "a", call=call)
        (note,) = failure.value.__notes__
        assert "'a'" in note
        assert order.table in note
    with pytest.raises(DRIVERS_OWN, match="closed"):
        await faulty.db.move_many(order.moves["pack"], ["a"])
    with pytest.raises(DRIVERS_OWN, match="closed"):
        await faulty.db.read(order, "a")
    assert faulty.row(order, "a") == ("NEW", "0")


@pytest.mark.parametrize("faulty", POSTGRES + REDIS, indirect=True)
@pytest.mark.parametrize("what", ["read", "history", "verify"])
async def test_reading_over_a_broken_connection_is_the_drivers_own_error(faulty: Faulty, what: str) -> None:
    """Nothing was moved, so there is no outcome to doubt."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    if what == "verify" and faulty.kind in REDIS:
        what = "read"
    faulty.proxy.cut_before_request()
    with pytest.raises(DRIVERS_OWN):
        await getattr(faulty.db, what)(order, *(() if what == "verify" else ("a",)))
    assert faulty.proxy.cuts == 1


@pytest.mark.parametrize("faulty", POSTGRES, indirect=True)
async def test_a_bulk_that_is_cut_before_it_was_sent_is_unknown_or_an_error(faulty: Faulty) -> None:
    """The first bulk asks for the types of the columns; that is no reason for an error of our own kind."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    faulty.proxy.cut_before_request()
    answers = await told(faulty.db.move_many(order.moves["pack"], ["a"]))
    if isinstance(answers, Exception):
        assert isinstance(answers, DRIVERS_OWN)
        assert says_nothing_was_kept(answers)
    else:
        assert [type(answer) for answer in answers] == [Unknown]
    assert faulty.row(order, "a") == ("NEW", "0")


@pytest.mark.parametrize("faulty", POSTGRES, indirect=True)
async def test_winners_are_told_although_the_losers_names_are_lost(faulty: Faulty) -> None:
    """A bulk asks afterwards who won the rows that it lost; what it won itself is committed and known by then."""
    order = await faulty.prepared(("a", "NEW"), ("b", "NEW"), history=True)
    await faulty.db.move_many(order.moves["pack"], ["b"])
    faulty.proxy.cut_before_request("SELECT")
    answers = await faulty.db.move_many(order.moves["pack"], ["a", "b"])
    assert [answer.outcome for answer in answers] == ["moved", "already"]
    assert faulty.proxy.cuts == 1
    assert faulty.row(order, "a") == ("PACKED", "1")


@pytest.mark.parametrize("faulty", ["postgres-connect-async", "redis-connect-async"], indirect=True)
async def test_a_cut_in_a_shared_statement_is_unknown_for_all_who_share_it(faulty: Faulty) -> None:
    """Each caller can ask again with its own id, and nobody is told that somebody else had moved its row."""
    keys = [f"k{number}" for number in range(20)]
    order = await faulty.prepared(*((key, "NEW") for key in keys), history=True)
    pack = order.moves["pack"]
    await asyncio.gather(*(faulty.db.move(pack, "warm") for _ in range(5)))
    faulty.proxy.cut_after_reply()
    answers = await asyncio.gather(*(faulty.db.move(pack, key) for key in keys))
    assert {type(answer) for answer in answers} <= {Moved, Unknown}
    assert any(isinstance(answer, Unknown) for answer in answers)
    again = [
        await faulty.db.move(pack, answer.key, call=answer.call) if isinstance(answer, Unknown) else answer
        for answer in answers
    ]
    assert [(answer.key, answer.outcome) for answer in again] == [(key, "moved") for key in keys]
    assert {faulty.row(order, key) for key in keys} == {("PACKED", "1")}


@pytest.mark.parametrize("faulty", ["postgres-connect-async"], indirect=True)
async def test_in_a_shared_statement_winners_are_told_although_the_losers_names_are_lost(
    faulty: Faulty,
) -> None:
    """Not one of those that moved their row may be told that it was there already."""
    keys = [f"k{number}" for number in range(20)]
    order = await faulty.prepared(*((key, "NEW") for key in keys), ("lost", "PACKED"), history=True)
    pack = order.moves["pack"]
    await asyncio.gather(*(faulty.db.move(pack, f"nobody{number}") for number in range(5)))
    faulty.proxy.cut_before_request("SELECT")
    answers = await asyncio.gather(*(faulty.db.move(pack, key) for key in (*keys, "lost")))
    assert faulty.proxy.cuts == 1
    assert [answer.outcome for answer in answers[:-1]] == ["moved"] * 20
    assert answers[-1].outcome in ("already", "unknown")


@pytest.mark.parametrize("faulty", REDIS, indirect=True)
async def test_a_script_that_the_server_has_forgotten_can_be_lost_too(faulty: Faulty) -> None:
    """The script is sent whole then, and its acknowledgement is as good or bad as any other."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    client: Any = faulty.ground._client  # type: ignore[attr-defined]
    client.script_flush()
    faulty.proxy.cut_after_reply("EVAL")
    answer = await faulty.db.move(order.moves["pack"], "a")
    assert isinstance(answer, Unknown)
    assert faulty.row(order, "a") == ("PACKED", "1")
    again = await faulty.db.move(order.moves["pack"], "a", call=answer.call)
    assert isinstance(again, Moved)
    assert again.replayed


@pytest.mark.parametrize("faulty", CONNECT, indirect=True)
async def test_connect_works_again_after_a_cut(faulty: Faulty) -> None:
    """Without any help of the caller's, for one row, many rows and reading."""
    order = await faulty.prepared(("a", "NEW"), ("b", "NEW"), ("c", "NEW"), history=True)
    for cut in (faulty.proxy.cut_after_reply, faulty.proxy.cut_before_request):
        cut()
        assert isinstance(await faulty.db.move(order.moves["pack"], "nobody"), Unknown)
        assert (await faulty.db.read(order, "a"))["status"] in ("NEW", "PACKED")
        assert (await faulty.db.move(order.moves["pack"], "a")).outcome in ("moved", "already")
        answers = await faulty.db.move_many(order.moves["pack"], ["b", "c"])
        assert {answer.outcome for answer in answers} <= {"moved", "already"}
    assert faulty.proxy.cuts == 2


@pytest.mark.parametrize("faulty", BOUND, indirect=True)
async def test_an_unknown_end_is_told_as_an_event(faulty: Faulty) -> None:
    """Monitoring sees it under its own name."""
    order = await faulty.prepared(("a", "NEW"))
    heard: list[Event] = []
    faulty.proxy.cut_after_reply()
    with subscribed(heard.append):
        await faulty.db.move(order.moves["pack"], "a", by="me")
    assert [(event.operation, event.outcome, event.key, event.by) for event in heard] == [
        ("move", "unknown", "a", "me")
    ]
