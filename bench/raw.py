"""The references: the same guarded write by hand, with the raw driver, in autocommit; with history, the same row of it.

SQL texts are fixed, so that each driver prepares or caches them as it does by default. A call returns the new revision,
or None if the guard did not hold.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from bench.commands import ACTOR, Commands, Status

Call = Callable[[int, Any], Any]
"""One call: which move of the cycle, and the key; what is async returns an awaitable."""

_CYCLE = (
    ("send", (Status.QUEUED, Status.SEND_FAILED), Status.SENT),
    ("fail", (Status.SENT, Status.ACK), Status.SEND_FAILED),
)
_HISTORY = "lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at"
_calls = count(1)


def next_call() -> str:
    """An id for the history, as cheap as one can be."""
    return f"bench-{next(_calls):x}"


def update(table: str, step: int, key: str) -> str:
    """The guarded UPDATE; `key` is the placeholder."""
    _, (one, other), target = _CYCLE[step]
    return (
        f"UPDATE {table} SET status = '{target}', rev = rev + 1"
        f" WHERE cmd_id = {key} AND status IN ('{one}', '{other}') RETURNING rev"
    )


def update_and_note(table: Commands, step: int, key: str, actor: str, call: str, major: int) -> str:
    """PostgreSQL: the same with its row of history, in one statement."""
    name, (one, other), target = _CYCLE[step]
    changed = (
        f"UPDATE {table.table} AS t SET status = '{target}', rev = t.rev + 1"
        f" WHERE t.cmd_id = {key} AND t.status IN ('{one}', '{other}') RETURNING t.cmd_id, old.status AS before, t.rev"
    )
    if major < 18:  # RETURNING cannot tell what was before
        changed = (
            f"UPDATE {table.table} AS t SET status = '{target}', rev = t.rev + 1"
            f" FROM (SELECT cmd_id, status FROM {table.table} WHERE cmd_id = {key} FOR NO KEY UPDATE) AS cur"
            f" WHERE t.cmd_id = cur.cmd_id AND cur.status IN ('{one}', '{other}')"
            " RETURNING t.cmd_id, cur.status AS before, t.rev"
        )
    return (
        f"WITH changed AS ({changed}), noted AS (INSERT INTO {table.history} ({_HISTORY})"
        f" SELECT 'Command', cmd_id, '{name}', 'moved', before, '{target}', rev, {actor}::text, NULL, {call}::text,"
        " clock_timestamp() FROM changed) SELECT rev FROM changed"
    )


def postgres_texts(table: Commands, placeholders: tuple[str, str, str], major: int) -> list[str]:
    key, actor, call = placeholders
    if table.history:
        return [update_and_note(table, step, key, actor, call, major) for step in (0, 1)]
    return [update(table.table, step, key) for step in (0, 1)]


def with_asyncpg(connection: Any, table: Commands) -> Callable[[int, Any], Awaitable[Any]]:
    texts = postgres_texts(table, ("$1", "$2", "$3"), connection.get_server_version().major)
    if table.history:
        return lambda step, key: connection.fetchval(texts[step], key, ACTOR, next_call())
    return lambda step, key: connection.fetchval(texts[step], key)


def with_psycopg(connection: Any, table: Commands) -> Call:
    texts = postgres_texts(table, ("%s", "%s", "%s"), connection.info.server_version // 10_000)
    cursor = connection.cursor()

    def call(step: int, key: Any) -> Any:
        cursor.execute(texts[step], (key, ACTOR, next_call()) if table.history else (key,))
        return cursor.fetchone()

    return call


def with_async_psycopg(connection: Any, table: Commands) -> Call:
    texts = postgres_texts(table, ("%s", "%s", "%s"), connection.info.server_version // 10_000)
    cursor = connection.cursor()

    async def call(step: int, key: Any) -> Any:
        await cursor.execute(texts[step], (key, ACTOR, next_call()) if table.history else (key,))
        return await cursor.fetchone()

    return call


def with_sqlite(connection: sqlite3.Connection, table: Commands) -> Call:
    updates = [update(table.table, step, "?") for step in (0, 1)]
    # RETURNING cannot tell what was before: the history is written first, in the same transaction
    notes = [
        f"INSERT INTO {table.history} ({_HISTORY}) SELECT 'Command', cmd_id, '{name}', 'moved', status, '{target}',"
        " rev + 1, ?, NULL, ?, strftime('%Y-%m-%d %H:%M:%f', 'now')"
        f" FROM {table.table} WHERE cmd_id = ? AND status IN ('{one}', '{other}')"
        for name, (one, other), target in _CYCLE
    ]
    cursor = connection.cursor()

    def call(step: int, key: Any) -> Any:
        # all rows, for the commit comes with the end of the statement
        found = cursor.execute(updates[step], (key,)).fetchall()
        return found[0][0] if found else None

    def call_and_note(step: int, key: Any) -> Any:
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute(notes[step], (ACTOR, next_call(), key))
        found = cursor.execute(updates[step], (key,)).fetchall()
        cursor.execute("COMMIT")
        return found[0][0] if found else None

    return call_and_note if table.history else call


_SCRIPT = """
local before = redis.call('HGET', KEYS[1], 'status')
if before ~= ARGV[1] and before ~= ARGV[2] then return false end
redis.call('HSET', KEYS[1], 'status', ARGV[3])
return redis.call('HINCRBY', KEYS[1], 'rev', 1)
"""
_SCRIPT_WITH_HISTORY = """
local before = redis.call('HGET', KEYS[1], 'status')
if before ~= ARGV[1] and before ~= ARGV[2] then return false end
redis.call('HSET', KEYS[1], 'status', ARGV[3])
local rev = redis.call('HINCRBY', KEYS[1], 'rev', 1)
local time = redis.call('TIME')
redis.call('XADD', KEYS[2], '*', 'lifecycle', 'Command', 'move', ARGV[4], 'outcome', 'moved', 'before', before,
  'after', ARGV[3], 'revision', rev, 'actor', ARGV[5], 'reason', '', 'call', ARGV[6],
  'at', string.format('%s.%06d', time[1], tonumber(time[2])))
return rev
"""


def script(table: Commands) -> str:
    """The script to load before the first call."""
    return _SCRIPT_WITH_HISTORY if table.history else _SCRIPT


def with_redis(client: Any, table: Commands, sha: str) -> Call:
    """For a sync client and for an async one alike; `sha` is what SCRIPT LOAD said."""
    prefix, stream = f"{table.table}:", f"{table.table}/history:"
    arguments = [(*sources, target) for _, sources, target in _CYCLE]
    names = [name for name, _, _ in _CYCLE]
    if table.history:
        return lambda step, key: client.evalsha(
            sha, 2, prefix + key, stream + key, *arguments[step], names[step], ACTOR, next_call()
        )
    return lambda step, key: client.evalsha(sha, 1, prefix + key, *arguments[step])
