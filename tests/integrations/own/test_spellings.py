"""On a bare SQLite connection a UUID that is spelled otherwise is refused, never silently missing (L3; P9)."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raceproof import Already, Attempts, Claim, Delivery, Lifecycle, Missing, Refused, Store, bind, column
from raceproof.kernel.errors import CallError

KEY, OTHER = UUID("5448d865-b2ef-4f5e-9b1a-0a5f6f8a0001"), UUID("5448d865-b2ef-4f5e-9b1a-0a5f6f8a0002")
ORDER = Lifecycle.from_dict(
    {
        "name": "Order",
        "table": "orders",
        "statuses": ["new", "paid", "gone"],
        "moves": {
            "pay": {"from": ["new"], "to": "paid", "stamp": ["paid_at"]},
            "drop": {"from": ["new", "paid"], "to": "gone"},
        },
        "claims": {"work": {"at": ["new"], "lease": 30}},
    }
)
PAY, WORK = ORDER.moves["pay"], ORDER.claims["work"]
PARCEL = Delivery("parcel", "orders")
OWNED = Attempts(ORDER, owner="owner", supersede=ORDER.moves["drop"])
SPELLINGS = {
    "digits": KEY.hex,
    "capitals": str(KEY).upper(),
    "bytes": KEY.bytes,
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database whose tables another program made."""
    with closing(sqlite3.connect(tmp_path / "own.db", isolation_level=None)) as found:
        found.execute(
            "CREATE TABLE orders (id PRIMARY KEY, status TEXT, owner, made_at, paid_at, delivering_at, delivered_at,"
            " claimed_by TEXT, claimed_until TEXT, fence INTEGER)"
        )
        yield found


@pytest.fixture
def db(connection: sqlite3.Connection) -> Store:
    return bind(connection)


CALLS: dict[str, Any] = {
    "move": lambda db, key: db.move(PAY, key),
    "move_many": lambda db, key: db.move_many(PAY, [key]),
    "claim_one": lambda db, key: db.claim_one(WORK, key),
    "begin_delivery": lambda db, key: db.begin_delivery(PARCEL, key),
    "read": lambda db, key: db.read(ORDER, key),
    "start_attempt": lambda db, key: db.start_attempt(OWNED, "ann", key),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("call", CALLS)
def test_a_key_that_the_table_spells_otherwise_is_refused(
    db: Store, connection: sqlite3.Connection, call: str, spelling: str
) -> None:
    """Both ORMs store 32 digits on SQLite; a caller that binds the connection itself learns so."""
    connection.execute("INSERT INTO orders (id, status) VALUES (?, 'new')", [SPELLINGS[spelling]])
    with pytest.raises(CallError, match="is not how orders spells this key: id holds"):
        CALLS[call](db, KEY)
    if spelling != "bytes":
        assert CALLS[call](db, SPELLINGS[spelling]) is not None


@pytest.mark.parametrize("given", [str(KEY), KEY.hex])
def test_a_text_that_is_a_uuid_is_looked_for_in_other_spellings_too(
    db: Store, connection: sqlite3.Connection, given: str
) -> None:
    """People pass str(order.id)."""
    stored = KEY.hex if given == str(KEY) else str(KEY)
    connection.execute("INSERT INTO orders (id, status) VALUES (?, 'new')", [stored])
    with pytest.raises(CallError, match=stored):
        db.move(PAY, given)


def test_an_owner_that_is_spelled_otherwise_gets_no_second_attempt(db: Store, connection: sqlite3.Connection) -> None:
    """P9: the open attempt of the same owner would not be seen."""
    connection.execute("INSERT INTO orders (id, status, owner) VALUES ('a', 'new', ?)", [KEY.hex])
    with pytest.raises(CallError, match="owner holds"):
        db.start_attempt(OWNED, KEY, "b")
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (1,)


@pytest.mark.parametrize("key", [OTHER, OTHER.hex, "a-text-of-thirty-six-characters-long"])
def test_a_row_that_is_nowhere_is_missing(db: Store, connection: sqlite3.Connection, key: Any) -> None:
    connection.execute("INSERT INTO orders (id, status) VALUES (?, 'new')", [KEY.hex])
    assert isinstance(db.move(PAY, key), Missing)
    assert isinstance(db.claim_one(WORK, key), Missing)
    assert db.read(ORDER, key) is None


@pytest.mark.parametrize("spelling", [KEY.hex, str(KEY), str(KEY).upper()])
def test_a_guard_by_a_uuid_fits_every_spelling(db: Store, connection: sqlite3.Connection, spelling: str) -> None:
    """A guard that matches nothing would be a silent empty claim."""
    connection.execute("INSERT INTO orders (id, status, owner) VALUES ('a', 'new', ?)", [spelling])
    assert db.claim(WORK, where=column("owner") == OTHER) == []
    (claim,) = db.claim(WORK, where=column("owner") == KEY)
    assert isinstance(claim, Claim)
    assert isinstance(db.move(PAY, "a", where=column("owner") == OTHER), Refused)
    assert db.move(PAY, "a", where=column("owner") == KEY).won


@pytest.mark.parametrize(
    "spelling",
    ["2026-01-31 12:00:00", "2026-01-31 12:00:00.000", "2026-01-31 12:00:00.000000", "2026-01-31T12:00:00Z"],
)
def test_a_guard_by_a_moment_fits_every_spelling(db: Store, connection: sqlite3.Connection, spelling: str) -> None:
    """Django writes no fraction, SQLAlchemy six digits, the library three."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    connection.execute("INSERT INTO orders (id, status, made_at) VALUES ('a', 'new', ?)", [spelling])
    assert db.claim(WORK, where=column("made_at") > noon) == []
    assert db.claim(WORK, where=column("made_at") < noon) == []
    assert len(db.claim(WORK, where=column("made_at") == noon)) == 1
    assert db.move(PAY, "a", where=column("made_at") >= noon).won
    assert isinstance(db.move(PAY, "a", where=column("made_at") == noon), Already)
