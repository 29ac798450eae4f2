"""The two deliveries that the examples share, and their table."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

# docs: declared
from raceproof import Delivery, Store, bind

picture = Delivery("picture", table="jobs", key="job_id", stale=300)

receipt = Delivery(
    "receipt",
    table="jobs",
    key="job_id",
    delivering="receipt_sending_at",
    delivered="receipt_sent_at",
    state="receipt_state",
    holder="receipt_by",
    error="receipt_error",
    attempts="receipt_tries",
    policy="hold",
)

# docs: rest
TABLE = """
-- docs: table
CREATE TABLE jobs (
    job_id             TEXT PRIMARY KEY,
    delivering_at      TEXT,
    delivered_at       TEXT,
    receipt_sending_at TEXT,
    receipt_sent_at    TEXT,
    receipt_state      TEXT,
    receipt_by         TEXT,
    receipt_error      TEXT,
    receipt_tries      INTEGER
);
-- docs: database
"""


@contextmanager
def database(*job_ids: str) -> Iterator[Store]:
    """A store in memory with these jobs."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(TABLE)
        connection.executemany("INSERT INTO jobs (job_id) VALUES (?)", [(one,) for one in job_ids])
        yield bind(connection)
