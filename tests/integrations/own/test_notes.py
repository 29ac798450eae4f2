"""What a driver's error says of a call: what is kept of it, and what to do about a value (L2; P12)."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from raceproof import Lifecycle, bind

ORDER = Lifecycle.from_dict(
    {
        "name": "Order",
        "table": "orders",
        "statuses": ["new", "paid"],
        "moves": {"pay": {"from": ["new"], "to": "paid", "sets": ["detail"]}},
        "history": {"table": "raceproof_history"},
    }
)
PAY = ORDER.moves["pay"]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """A database without the tables."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as found:
        yield found


def test_asking_again_for_a_call_never_claims_that_nothing_of_it_was_kept(
    connection: sqlite3.Connection,
) -> None:
    """The first call with that id may have moved the row."""
    with pytest.raises(sqlite3.OperationalError) as asked:
        bind(connection).move(PAY, "a", call="call-1")
    (note,) = asked.value.__notes__
    assert "an earlier call with the same id" in note
    assert "this call wrote nothing" not in note


def test_a_first_call_that_failed_says_that_nothing_was_kept(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError) as asked:
        bind(connection).move(PAY, "a")
    assert "this call wrote nothing" in asked.value.__notes__[0]


def test_a_dict_for_a_bare_driver_says_what_to_pass_instead(connection: sqlite3.Connection) -> None:
    """A JSON column takes text there; only an ORM's types make it of a dict."""
    connection.execute("CREATE TABLE orders (id PRIMARY KEY, status, detail)")
    with pytest.raises(sqlite3.Error) as asked:
        bind(connection).move(PAY, "a", set={"detail": {"a": 1}})
    assert "the dict for 'detail', pass json.dumps" in asked.value.__notes__[0]
