"""Redis and Valkey through redis-py, sync and async, on a client of the caller's.

redis-py repeats a command whose answer did not come, which would turn *moved* into *already* without anyone knowing.
So a command is sent here once, on a connection from the client's own pool; no answer is AcknowledgementLost. Replies are
read as bytes, whatever the client decodes: a field that is no text must not fail a call that has been decided already.
On a cluster the client chooses the node, and its own retries stay in force.

Before Python 3.12 redis-py may forget a cancellation that comes while it sends: who asks for one is heeded here.
"""

import asyncio
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import redis
import redis.asyncio

from raceproof.driver import AsyncDriver, Driver
from raceproof.kernel.cancellation import cancellations
from raceproof.kernel.errors import StoreUnavailable
from raceproof.kernel.redis import RedisDialect, takes_no_writes
from raceproof.kernel.statement import AcknowledgementLost, Rows, Statement

_pack: Callable[[Any], bytes] | None
try:
    from hiredis import pack_command as _pack
except ImportError:
    _pack = None

_CUT_OFF = (redis.ConnectionError, redis.TimeoutError, OSError)
_CODES: dict[type[Exception], str] = {
    redis.exceptions.ReadOnlyError: "READONLY",
    redis.exceptions.OutOfMemoryError: "OOM",
}
"""Errors from whose text redis-py takes the code away."""
_PACKS_LIKE_US = {
    redis.Connection,
    redis.SSLConnection,
    redis.UnixDomainSocketConnection,
    redis.asyncio.Connection,
    redis.asyncio.SSLConnection,
    redis.asyncio.UnixDomainSocketConnection,
}
"""Connections that would pack a command just so, after having looked at each of its arguments."""


@cache
def _sha(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


def _command(statement: Statement, whole: bool = False) -> tuple[Any, ...]:
    """A statement as a command: a script by its hash (or whole), anything else as it is."""
    if not statement.keys:
        return (statement.text, *statement.params)
    script = ("EVAL", statement.text) if whole else ("EVALSHA", _sha(statement.text))
    return (*script, len(statement.keys), *statement.keys, *statement.params)


def _send(connection: Any, statement: Statement, whole: bool = False) -> Any:
    """Send a command; on an async connection, something to wait for."""
    command = _command(statement, whole)
    if _pack is not None and type(connection) in _PACKS_LIKE_US:
        return connection.send_packed_command((_pack(command),))
    return connection.send_command(*command)


def _unavailable(statement: Statement, error: redis.ResponseError) -> StoreUnavailable | None:
    """The server runs and takes no writes: the first write of a script fails, so nothing of it was kept."""
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), "")
    said = f"{code} {error}".strip()
    hint = takes_no_writes(said)
    return None if hint is None else StoreUnavailable(f"Redis did not run {statement.name}: {hint} ({said})")


def rows_of(statement: Statement, reply: Any) -> Rows:
    return reply if statement.keys else [reply]


class RedisClient(Driver):
    """A sync redis-py client."""

    def __init__(self, client: Any, cluster: bool = False) -> None:
        super().__init__(RedisDialect(cluster))
        self._client = client

    def execute(self, statement: Statement) -> Rows:
        client = self._client
        if client.connection is not None:
            with client.single_connection_lock:
                client.connection.connect()
                return rows_of(statement, self._once(client.connection, statement))
        connection = client.connection_pool.get_connection()
        try:
            return rows_of(statement, self._once(connection, statement))
        finally:
            client.connection_pool.release(connection)

    def _once(self, connection: Any, statement: Statement) -> Any:
        try:
            try:
                _send(connection, statement)
                return connection.read_response(disable_decoding=True)
            except redis.exceptions.NoScriptError:
                _send(connection, statement, whole=True)
                return connection.read_response(disable_decoding=True)
        except _CUT_OFF as error:
            connection.disconnect()
            raise AcknowledgementLost from error
        except redis.ResponseError as error:
            if unavailable := _unavailable(statement, error):
                connection.disconnect()  # a new connection may lead to the new primary
                raise unavailable from error
            raise


class AsyncRedisClient(AsyncDriver):
    """An async redis-py client."""

    def __init__(self, client: Any, cluster: bool = False) -> None:
        super().__init__(RedisDialect(cluster))
        self._client = client

    async def execute(self, statement: Statement) -> Rows:
        client, asked = self._client, cancellations()
        if client.connection is not None:
            async with client._single_conn_lock:
                return rows_of(statement, await once(client.connection, statement, asked))
        connection = await client.connection_pool.get_connection()
        try:
            return rows_of(statement, await once(connection, statement, asked))
        finally:
            await client.connection_pool.release(connection)


async def once(connection: Any, statement: Statement, asked: int) -> Any:
    """Send a command once on an async connection and read its reply; a cancelled call leaves no reply behind.

    `asked` are the cancellations that there were when the call began.
    """
    if not connection.is_connected:
        await connection.connect()
    try:
        try:
            return await _answered(connection, statement, asked)
        except redis.exceptions.NoScriptError:
            return await _answered(connection, statement, asked, whole=True)
    except _CUT_OFF as error:
        await connection.disconnect(nowait=True)
        raise AcknowledgementLost from error
    except redis.ResponseError as error:
        if unavailable := _unavailable(statement, error):
            await connection.disconnect(nowait=True)  # a new connection may lead to the new primary
            raise unavailable from error
        raise
    except BaseException:
        if connection.is_connected:
            await connection.disconnect(nowait=True)
        raise


async def _answered(connection: Any, statement: Statement, asked: int, whole: bool = False) -> Any:
    await _send(connection, statement, whole)
    if cancellations() == asked:
        reply = await connection.read_response(disable_decoding=True)
        if cancellations() == asked:
            return reply
    raise asyncio.CancelledError


class RedisCluster(Driver):
    """A sync redis-py cluster client."""

    def __init__(self, client: Any) -> None:
        super().__init__(RedisDialect(cluster=True))
        self._client = client

    def execute(self, statement: Statement) -> Rows:
        try:
            try:
                return rows_of(statement, self._client.execute_command(*_command(statement)))
            except redis.exceptions.NoScriptError:
                return rows_of(statement, self._client.execute_command(*_command(statement, whole=True)))
        except _CUT_OFF as error:
            raise AcknowledgementLost from error
        except redis.ResponseError as error:
            raise (_unavailable(statement, error) or error) from error.__cause__


class AsyncRedisCluster(AsyncDriver):
    """An async redis-py cluster client."""

    def __init__(self, client: Any) -> None:
        super().__init__(RedisDialect(cluster=True))
        self._client = client

    async def execute(self, statement: Statement) -> Rows:
        asked = cancellations()
        try:
            try:
                reply = await self._client.execute_command(*_command(statement))
            except redis.exceptions.NoScriptError:
                reply = await self._client.execute_command(*_command(statement, whole=True))
        except _CUT_OFF as error:
            raise AcknowledgementLost from error
        except redis.ResponseError as error:
            raise (_unavailable(statement, error) or error) from error.__cause__
        if cancellations() > asked:
            raise asyncio.CancelledError
        return rows_of(statement, reply)
