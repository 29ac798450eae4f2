"""A user who may add to the history but not read it: moves are told as they happened, in a transaction too (L5, P1)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from raceproof import Already, Moved, bind
from raceproof.declare import Spec
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import PostgresGround, fresh_name
from raceproof.testing.contract.orders import orders


@pytest.fixture
def clerk(ground: PostgresGround, postgres_server: PostgresServer) -> Iterator["psycopg.Connection[Any]"]:
    """A connection of somebody with few rights."""
    role = fresh_name("clerk")
    ground.run(f"CREATE ROLE {role} LOGIN")
    with psycopg.connect(postgres_server.url.replace("postgres@", f"{role}@"), autocommit=True) as connection:
        yield connection


def prepared(ground: PostgresGround, clerk: "psycopg.Connection[Any]") -> Spec[str]:
    order = orders(history=True)
    assert order.history is not None
    ground.table(order)
    for key, status in (("a", "NEW"), ("b", "PACKED")):
        ground.put(order, key, status)
    ground.run(f"GRANT SELECT, UPDATE ON {order.table} TO {clerk.info.user}")
    ground.run(f"GRANT INSERT ON {order.history.table} TO {clerk.info.user}")
    return order


def test_a_bulk_tells_what_it_moved(ground: PostgresGround, clerk: "psycopg.Connection[Any]") -> None:
    """Who moved the others cannot be told, which is no reason to deny what was committed."""
    order = prepared(ground, clerk)
    answers = bind(clerk).move_many(order.moves["pack"], ["a", "b"])
    assert [type(answer) for answer in answers] == [Moved, Already]
    assert ground.get(order, "a")["status"] == "PACKED"


def test_a_loser_learns_what_was_found(ground: PostgresGround, clerk: "psycopg.Connection[Any]") -> None:
    """Only the name of the winner is missing."""
    order = prepared(ground, clerk)
    answer = bind(clerk).move(order.moves["pack"], "b")
    assert isinstance(answer, Already)
    assert answer.by is None


@pytest.mark.parametrize("keys", [["a", "b"], ["b"]])
def test_in_a_transaction_what_is_told_can_be_committed(
    ground: PostgresGround, clerk: "psycopg.Connection[Any]", keys: list[str]
) -> None:
    """A statement that fails ends the whole transaction: then the call must fail too, or have asked in another way."""
    order = prepared(ground, clerk)
    clerk.execute("BEGIN")
    clerk.execute(f"UPDATE {order.table} SET box = 'mine'".encode())
    try:
        answers = bind(clerk).move_many(order.moves["pack"], keys)
    except psycopg.Error:
        clerk.execute("ROLLBACK")
        return
    clerk.execute("COMMIT")
    assert ground.get(order, "b")["box"] == "mine"
    for answer in answers:
        assert not answer.won or ground.get(order, answer.key)["status"] == "PACKED"
