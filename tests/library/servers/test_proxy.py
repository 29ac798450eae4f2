"""The proxy loses exactly one message, with every driver that we use; everything else goes through unharmed."""

from collections.abc import AsyncIterator, Iterator
from typing import TypeAlias

import asyncpg
import psycopg
import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from raceproof.testing import PostgresServer, Proxy, ValkeyServer, valkey

AsyncConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

ONCE = Retry(NoBackoff(), 0)  # redis-py would send a request again, without a word, when its connection breaks


@pytest.fixture(scope="module")
def empty_database(postgres_server: PostgresServer) -> str:
    """The URL of a database for all tests in this file."""
    return postgres_server.database()


@pytest.fixture
def database(postgres_server: PostgresServer, empty_database: str) -> str:
    """The URL of a database with one counter."""
    postgres_server.psql("DROP TABLE IF EXISTS counter; CREATE TABLE counter AS SELECT 0 AS n", empty_database)
    return empty_database


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    """A proxy to that database."""
    with Proxy(database) as proxy:
        yield proxy


@pytest.fixture
async def connection(proxy: Proxy) -> AsyncIterator[AsyncConnection]:
    """asyncpg, by way of the proxy."""
    connection = await asyncpg.connect(proxy.url)
    yield connection
    await connection.close()


@pytest.fixture
def redis_proxy(valkey_server: ValkeyServer) -> Iterator[Proxy]:
    """A proxy to an empty Valkey."""
    with redis.Redis.from_url(valkey_server.url) as client:
        client.flushall()
    with Proxy(valkey_server.url) as proxy:
        yield proxy


def counted(database: str) -> int:
    """The counter, by a connection of its own."""
    with psycopg.connect(database) as connection:
        ((n,),) = connection.execute("SELECT n FROM counter").fetchall()
        return int(n)


@pytest.mark.parametrize("method", ["execute", "fetch", "fetchrow", "fetchval"])
async def test_asyncpg_loses_the_acknowledgement_of_a_new_statement(
    proxy: Proxy, connection: AsyncConnection, database: str, method: str
) -> None:
    """The reply to Parse and Describe goes through; the one to Execute is lost, and has a tag or not."""
    proxy.cut_after_reply("update")
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await getattr(connection, method)("UPDATE counter SET n = n + $1 RETURNING n", 1)
    assert (counted(database), proxy.cuts) == (1, 1)


async def test_asyncpg_loses_the_acknowledgement_of_a_prepared_statement(
    proxy: Proxy, connection: AsyncConnection, database: str
) -> None:
    """The same when there is no Parse any more."""
    update = await connection.prepare("UPDATE counter SET n = n + $1 RETURNING n")
    assert await update.fetchval(1) == 1
    proxy.cut_after_reply()
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await update.fetchval(1)
    assert (counted(database), proxy.cuts) == (2, 1)


async def test_asyncpg_loses_the_acknowledgement_of_a_commit(
    proxy: Proxy, connection: AsyncConnection, database: str
) -> None:
    """What comes before the commit goes through."""
    proxy.cut_after_reply("COMMIT")
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        async with connection.transaction():
            assert await connection.fetchval("UPDATE counter SET n = n + 1 RETURNING n") == 1
    assert (counted(database), proxy.cuts) == (1, 1)


async def test_asyncpg_loses_a_request(proxy: Proxy, connection: AsyncConnection, database: str) -> None:
    """Nothing was done."""
    proxy.cut_before_request()
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await connection.execute("UPDATE counter SET n = n + $1", 1)
    assert (counted(database), proxy.cuts) == (0, 1)


async def test_asyncpg_loses_the_request_of_a_prepared_statement(
    proxy: Proxy, connection: AsyncConnection, database: str
) -> None:
    """Its first word is remembered from Parse."""
    update = await connection.prepare("/* counting */ UPDATE counter SET n = n + $1 RETURNING n")
    proxy.cut_before_request("UPDATE")
    assert await connection.fetchval("SELECT n FROM counter") == 0
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await update.fetchval(1)
    assert (counted(database), proxy.cuts) == (0, 1)


async def test_asyncpg_loses_the_acknowledgement_of_a_copy(
    proxy: Proxy, connection: AsyncConnection, database: str
) -> None:
    """The server's answer in the middle, that it is ready for the rows, goes through."""
    await connection.execute("DELETE FROM counter")
    proxy.cut_after_reply("COPY")
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await connection.copy_records_to_table("counter", records=[(5,)])
    assert (counted(database), proxy.cuts) == (5, 1)


def test_psycopg_loses_the_acknowledgement_of_a_commit(proxy: Proxy, database: str) -> None:
    """The caller cannot know, and the row is there."""
    with psycopg.connect(proxy.url) as connection:
        proxy.cut_after_reply("COMMIT")
        connection.execute("UPDATE counter SET n = n + 1")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert (counted(database), proxy.cuts) == (1, 1)


def test_psycopg_loses_the_request_to_commit(proxy: Proxy, database: str) -> None:
    """The caller cannot know, and the row is not there."""
    with psycopg.connect(proxy.url) as connection:
        proxy.cut_before_request("COMMIT")
        connection.execute("UPDATE counter SET n = n + 1")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert (counted(database), proxy.cuts) == (0, 1)


def test_psycopg_loses_the_acknowledgement_of_a_pipeline(proxy: Proxy, database: str) -> None:
    """Several requests before the first reply."""
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        proxy.cut_after_reply("UPDATE")
        with pytest.raises(psycopg.OperationalError):
            connection.cursor().executemany("UPDATE counter SET n = n + %s", [(1,), (1,), (1,)])
    assert (counted(database), proxy.cuts) == (3, 1)


def test_an_error_goes_through_and_the_cut_waits(proxy: Proxy, database: str) -> None:
    """A failed statement has nothing to acknowledge."""
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        proxy.cut_after_reply()
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("UPDATE nowhere SET n = 1")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("UPDATE counter SET n = n + 1")
    assert (counted(database), proxy.cuts) == (1, 1)


def test_only_one_connection_is_cut(proxy: Proxy) -> None:
    """The next ones work again, through the same proxy."""
    with psycopg.connect(proxy.url, autocommit=True) as other, psycopg.connect(proxy.url) as connection:
        proxy.cut_after_reply()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        assert other.execute("SELECT 1").fetchall() == [(1,)]
        with psycopg.connect(proxy.url) as new:
            assert new.execute("SELECT 1").fetchall() == [(1,)]
    assert proxy.cuts == 1


async def test_big_rows_go_through(connection: AsyncConnection) -> None:
    """A message may come in many pieces, both ways."""
    text = "é" * 1_000_000
    assert await connection.fetchval("SELECT $1::text FROM generate_series(1, 2)", text) == text


def test_redis_loses_the_acknowledgement(redis_proxy: Proxy, valkey_server: ValkeyServer) -> None:
    """The increment is done."""
    with redis.Redis.from_url(redis_proxy.url, retry=ONCE) as client:
        client.ping()
        redis_proxy.cut_after_reply()
        with pytest.raises(redis.ConnectionError):
            client.incr("counter")
    with redis.Redis.from_url(valkey_server.url) as client:
        assert client.get("counter") == b"1"
    assert redis_proxy.cuts == 1


def test_redis_loses_the_acknowledgement_of_a_script_that_ran(redis_proxy: Proxy, valkey_server: ValkeyServer) -> None:
    """EVALSHA of an unknown script is an error, which goes through; redis-py then loads it and asks again."""
    with redis.Redis.from_url(redis_proxy.url, retry=ONCE) as client:
        script = client.register_script("return redis.call('INCR', KEYS[1])")
        redis_proxy.cut_after_reply("EVALSHA")
        with pytest.raises(redis.ConnectionError):
            script(keys=["counter"])
    with redis.Redis.from_url(valkey_server.url) as client:
        assert client.get("counter") == b"1"
    assert redis_proxy.cuts == 1


def test_redis_loses_the_acknowledgement_of_a_transaction(redis_proxy: Proxy, valkey_server: ValkeyServer) -> None:
    """All requests of the pipeline are answered before the cut."""
    with redis.Redis.from_url(redis_proxy.url, retry=ONCE) as client:
        redis_proxy.cut_after_reply("EXEC")
        with pytest.raises(redis.ConnectionError):
            client.pipeline().incr("counter").incr("counter").execute()
    with redis.Redis.from_url(valkey_server.url) as client:
        assert client.get("counter") == b"2"
    assert redis_proxy.cuts == 1


async def test_redis_loses_a_request(redis_proxy: Proxy, valkey_server: ValkeyServer) -> None:
    """Nothing was done."""
    async with redis.asyncio.Redis.from_url(redis_proxy.url, retry=AsyncRetry(NoBackoff(), 0)) as client:
        redis_proxy.cut_before_request("INCRBY")
        with pytest.raises(redis.ConnectionError):
            await client.incr("counter")
    async with redis.asyncio.Redis.from_url(valkey_server.url) as client:
        assert await client.get("counter") is None
    assert redis_proxy.cuts == 1


def test_a_restarted_server_is_reached_by_the_same_proxy() -> None:
    """While it is down, clients are turned away."""
    with valkey() as server, Proxy(server.url) as proxy:
        with redis.Redis.from_url(proxy.url, retry=ONCE) as client:
            client.set("kept", 1)
            server.kill()
            with pytest.raises(redis.ConnectionError):
                client.get("kept")
            server.restart()
            assert client.get("kept") == b"1"


def test_any_url_of_the_server_can_go_through(proxy: Proxy) -> None:
    """Only host and port change."""
    through = proxy.through("postgresql://me:secret@127.0.0.1:5432/other?application_name=x")
    assert through == f"postgresql://me:secret@127.0.0.1:{proxy.port}/other?application_name=x"


def test_an_unknown_protocol_is_refused() -> None:
    """It could not tell where a reply ends."""
    with pytest.raises(ValueError, match="mysql"):
        Proxy("mysql://127.0.0.1:3306")
