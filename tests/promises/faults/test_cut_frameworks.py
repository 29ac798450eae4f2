"""Lost acknowledgements under Django and SQLAlchemy, where each statement is committed by itself (P12)."""

from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from raceproof import Moved, Unknown, bind
from raceproof.declare import Spec
from raceproof.testing import PostgresServer, Proxy
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.orders import orders
from tests.integrations.own.fix_django import Django, django_on_postgres


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    """A proxy to the server."""
    with Proxy(postgres_server.url) as found:
        yield found


@pytest.fixture
async def django(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Django]:
    """Django's connection by way of the proxy."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    found = django_on_postgres(proxy.url)
    yield found
    await found.close()


def prepared(ground: PostgresGround) -> Spec[str]:
    order = orders(history=True)
    ground.table(order)
    for key in ("warm", "a"):
        ground.put(order, key, "NEW")
    return order


async def check(ground: PostgresGround, order: Spec[str], db: Caller, proxy: Proxy) -> None:
    """The answer is unknown, the row has moved once, and asking again from elsewhere tells so."""
    await db.move(order.moves["pack"], "warm")
    proxy.cut_after_reply()
    answer = await db.move(order.moves["pack"], "a")
    assert isinstance(answer, Unknown), str(answer)
    assert (ground.get(order, "a")["rev"], proxy.cuts) == ("1", 1)
    again = await ground.db.move(order.moves["pack"], "a", call=answer.call)
    assert isinstance(again, Moved)
    assert again.replayed


async def test_django_tells_that_it_does_not_know(ground: PostgresGround, django: Django, proxy: Proxy) -> None:
    """Outside of atomic()."""
    await check(ground, prepared(ground), Caller(django.store), proxy)


async def test_django_loses_the_whole_block(ground: PostgresGround, django: Django, proxy: Proxy) -> None:
    """Inside of atomic() the error is Django's, and nothing was kept."""
    order = prepared(ground)
    await django.begin()
    assert isinstance(await Caller(django.store).move(order.moves["pack"], "warm"), Moved)
    proxy.cut_after_reply()
    with pytest.raises(Exception, match="closed the connection"):
        await Caller(django.store).move(order.moves["pack"], "a")
    assert [ground.get(order, key)["status"] for key in ("warm", "a")] == ["NEW", "NEW"]


async def test_sqlalchemy_in_autocommit_tells_that_it_does_not_know(ground: PostgresGround, proxy: Proxy) -> None:
    """A sync connection with isolation level AUTOCOMMIT."""
    engine = create_engine(proxy.url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        await check(ground, prepared(ground), Caller(bind(connection)), proxy)
    engine.dispose()


async def test_async_sqlalchemy_in_autocommit_tells_that_it_does_not_know(ground: PostgresGround, proxy: Proxy) -> None:
    """The same with asyncpg below."""
    engine = create_async_engine(
        proxy.url.replace("postgresql://", "postgresql+asyncpg://"), isolation_level="AUTOCOMMIT"
    )
    async with engine.connect() as connection:
        await check(ground, prepared(ground), Caller(bind(connection)), proxy)
    await engine.dispose()
