"""What PostgreSQL says about a table is asked once for an engine, not with every store that is made of it (L3)."""

from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.orm import Session

from raceproof import Claim, Lifecycle, bind
from raceproof.drivers.psycopg import PsycopgConnection
from raceproof.kernel.statement import Statement
from raceproof.testing import PostgresServer
from tests.integrations.own.fix_django import django_on_postgres

JOB = Lifecycle.from_dict(
    {
        "name": "Job",
        "table": "catalogue_jobs",
        "statuses": ["new", "running", "done"],
        "moves": {
            "start": {"from": ["new"], "to": "running"},
            "finish": {"from": ["running"], "to": "done"},
            "back": {"from": ["running"], "to": "new"},
        },
        "claims": {"work": {"move": "start", "back": "back", "lease": 30}},
    }
)
WORK = JOB.claims["work"]


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS catalogue_jobs")
        connection.execute(
            "CREATE TABLE catalogue_jobs (id int PRIMARY KEY, status text, claimed_by text,"
            " claimed_until timestamptz, fence bigint)"
        )
        connection.execute("INSERT INTO catalogue_jobs SELECT g, 'new' FROM generate_series(1, 20) g")
    return postgres_server.url


def of_the_catalogue(statements: list[str]) -> int:
    """Our own questions, not those of a driver."""
    return sum("relhassubclass" in text or "format_type(atttypid, atttypmod)" in text for text in statements)


def use(bound: Callable[[], Any]) -> None:
    """A request that claims, one that renews, one that gives back: each makes a store of its own."""
    (claim,) = bound().claim(WORK)
    (claim,) = bound().renew(claim)
    assert isinstance(claim, Claim)
    assert [one.outcome for one in bound().release(claim)] == ["released"]


def test_sessions_of_one_engine_ask_once(url: str) -> None:
    """A session for each request, as every web application has it."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    seen: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *told: seen.append(told[2]))
    try:
        for _ in range(3):
            with Session(engine) as session:
                use(lambda session=session: bind(session))  # type: ignore[misc]
                session.commit()
    finally:
        engine.dispose()
    assert len(seen) > 9
    assert of_the_catalogue(seen) == 2  # what kind of table, and the types of its columns


def test_django_asks_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    own = django_on_postgres(url)
    seen: list[str] = []

    def watch(execute: Any, text: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(text)
        return execute(text, params, many, context)

    with own.connection.execute_wrapper(watch):
        for _ in range(3):
            use(lambda: bind(own.connection))
    own.connection.close()
    assert len(seen) > 9
    assert of_the_catalogue(seen) == 2


async def test_a_pool_lends_a_connection_that_has_asked(url: str) -> None:
    """A connection from the pool for each request."""
    seen: list[str] = []
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        for _ in range(3):
            async with pool.acquire() as connection:
                connection.add_query_logger(lambda record: seen.append(record.query))
                (claim,) = await bind(connection).claim(WORK)
                (renewed,) = await bind(connection).renew(claim)
                assert isinstance(renewed, Claim)
                await bind(connection).release(renewed)
    assert len(seen) > 9
    assert of_the_catalogue(seen) == 2


def test_a_psycopg_connection_that_is_bound_again_has_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was learned stays with the connection."""
    seen: list[str] = []
    execute = PsycopgConnection.execute

    def watched(driver: PsycopgConnection, statement: Statement) -> Any:
        seen.append(statement.text)
        return execute(driver, statement)

    monkeypatch.setattr(PsycopgConnection, "execute", watched)
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(3):
            use(lambda: bind(connection))
    assert len(seen) > 9
    assert of_the_catalogue(seen) == 2
