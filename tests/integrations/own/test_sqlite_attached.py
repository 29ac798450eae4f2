"""Tables in an attached SQLite database: `schema.table` means that one, whatever else has the same name (L3)."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from raceproof import Lifecycle, Moved, bind
from raceproof.ops.verify import verify
from raceproof.testing.contract.orders import DECLARATION

ORDER = Lifecycle.from_dict({**DECLARATION, "table": "archive.orders"})


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database with another one attached; both have a table `orders`, with different columns."""
    found = sqlite3.connect(tmp_path / "main.db", isolation_level=None)
    found.execute("ATTACH ? AS archive", (str(tmp_path / "archive.db"),))
    found.execute("CREATE TABLE main.orders (order_id text, junk text)")
    columns = "order_id text PRIMARY KEY, status text, rev int, packed_at text, packer text, box text"
    found.execute(f"CREATE TABLE archive.orders ({columns})")
    found.execute("INSERT INTO archive.orders (order_id, status, rev) VALUES ('a', 'NEW', 0)")
    yield found
    found.close()


def test_a_row_of_an_attached_database_moves(connection: sqlite3.Connection) -> None:
    """The table of the same name in main is not looked at."""
    assert isinstance(bind(connection).move(ORDER.moves["pack"], "a"), Moved)
    assert connection.execute("SELECT status, rev FROM archive.orders").fetchall() == [("PACKED", 1)]


def test_a_row_of_an_attached_database_is_read_whole(connection: sqlite3.Connection) -> None:
    """With its own columns."""
    row = bind(connection).read(ORDER, "a")
    assert row == {
        "order_id": "a",
        "status": "NEW",
        "rev": 0,
        "packed_at": None,
        "packer": None,
        "box": None,
    }


def test_a_table_of_an_attached_database_is_verified(connection: sqlite3.Connection) -> None:
    """Not the one in main."""
    findings = verify(bind(connection), ORDER)
    assert {finding.level for finding in findings} == {"ok", "warning"}
