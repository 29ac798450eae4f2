"""Tables of commands on each store; their rows are made by the server itself."""

import sqlite3

import psycopg
import redis

from bench.commands import FIRST_KEY

_STATUS = "CASE i % 2 WHEN 0 THEN 'SEND_FAILED' ELSE 'SENT' END"
_COLUMNS = """
    lifecycle text NOT NULL,
    key text NOT NULL,
    move text NOT NULL,
    outcome text NOT NULL,
    before text,
    after text,
    revision bigint,
    actor text,
    reason text,
    call text,
"""


def create_on_postgres(url: str, table: str, rows: int, history: str | None) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (cmd_id text NOT NULL, status text NOT NULL, rev bigint NOT NULL)")
        connection.execute(
            f"INSERT INTO {table} SELECT ({FIRST_KEY} + i)::text, {_STATUS}, 0 FROM generate_series(0, {rows - 1}) AS i"
        )
        connection.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (cmd_id)")
        if history:
            connection.execute(
                f"CREATE TABLE {history} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_COLUMNS}"
                " at timestamptz NOT NULL)"
            )
            connection.execute(f"CREATE INDEX ON {history} (lifecycle, key, id)")
        connection.execute(f"VACUUM ANALYZE {table}")


def create_on_sqlite(connection: sqlite3.Connection, table: str, rows: int, history: str | None) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        f"CREATE TABLE {table} (cmd_id text NOT NULL PRIMARY KEY, status text NOT NULL, rev integer NOT NULL)"
    )
    connection.execute(
        f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows - 1})"
        f" INSERT INTO {table} SELECT CAST({FIRST_KEY} + i AS text), {_STATUS}, 0 FROM n"
    )
    if history:
        connection.execute(f"CREATE TABLE {history} (id integer PRIMARY KEY, {_COLUMNS} at text NOT NULL)")
        connection.execute(f"CREATE INDEX {history}_key ON {history} (lifecycle, key, id)")
    connection.execute("COMMIT")
    # A log that still grows makes commits dearer, and two files would not grow alike: let it have its full size first.
    connection.execute("CREATE TABLE filler (page blob)")
    connection.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
        " INSERT INTO filler SELECT zeroblob(4000) FROM n"
    )
    connection.execute("DROP TABLE filler")
    connection.execute("PRAGMA wal_checkpoint(RESTART)")


def open_sqlite(path: str) -> sqlite3.Connection:
    """A connection as a careful user opens it: write-ahead log, every commit on the disk before it is told."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


_ROWS_IN_ONE_SCRIPT = 10_000
_MAKE_HASHES = """
for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  local status = i % 2 == 0 and 'SEND_FAILED' or 'SENT'
  redis.call('HSET', ARGV[1] .. ':' .. string.format('%.0f', i), 'status', status, 'rev', '0')
end
"""


def create_on_redis(url: str, table: str, rows: int) -> None:
    with redis.Redis.from_url(url) as client:
        for start in range(0, rows, _ROWS_IN_ONE_SCRIPT):
            end = min(start + _ROWS_IN_ONE_SCRIPT, rows) - 1
            client.eval(_MAKE_HASHES, 0, table, str(FIRST_KEY + start), str(FIRST_KEY + end))
