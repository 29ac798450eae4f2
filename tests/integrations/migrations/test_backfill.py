"""The first deploy: rows in work have no lease, and a new worker would take them from the old one."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from raceproof import Claim, Lifecycle, Store, bind, ddl
from raceproof.declare import Claimable
from raceproof.schema import backfill
from tests.integrations.migrations.declared import EVERYTHING, EXISTING, TABLES, Dated, Job, Marked, Staying

Execute = Callable[[str], Any]


@pytest.fixture(params=["sqlite", "postgres"])
def deployed(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Execute]]:
    """Rows of an old release, one waiting and one in work, in tables that have just got their columns."""
    with closing(_connection(request)) as connection:
        for table in TABLES:
            connection.execute(table)
        for table in ("jobs", "dated", "marked", "staying"):
            connection.execute(f"INSERT INTO {table} (id, status) VALUES ('new', 'QUEUED'), ('old', 'RUNNING')")
        for statement in ddl(*EVERYTHING, dialect=request.param, existing=EXISTING):
            connection.execute(statement)
        yield bind(connection), connection.execute


def _connection(request: pytest.FixtureRequest) -> Any:
    if request.param == "sqlite":
        return sqlite3.connect(":memory:", isolation_level=None)
    return psycopg.connect(request.getfixturevalue("empty_postgres"), autocommit=True)


def filled(store: Store, execute: Execute, of: type[Lifecycle[Any]]) -> None:
    for statement in backfill(of, dialect=store.dialect):  # type: ignore[arg-type]
        execute(statement)


def keys(store: Store, work: Claimable[Any]) -> set[str]:
    return {one.key for one in store.claim(work, limit=10)}


@pytest.mark.parametrize("of", [Job, Dated, Marked])
def test_without_it_a_new_worker_takes_a_row_that_an_old_one_works_on(deployed: tuple[Store, Execute], of: Any) -> None:
    """The control: this is what goes wrong."""
    store, _ = deployed
    assert keys(store, of.work) == {"new", "old"}


@pytest.mark.parametrize("of", [Job, Dated, Marked])
def test_with_it_only_rows_that_wait_are_claimed(deployed: tuple[Store, Execute], of: Any) -> None:
    """In each form; run twice, it does not matter."""
    store, execute = deployed
    filled(store, execute, of)
    filled(store, execute, of)
    assert keys(store, of.work) == {"new"}


@pytest.mark.parametrize("of", [Job, Dated, Marked])
def test_after_the_lease_the_row_is_free(deployed: tuple[Store, Execute], of: Any) -> None:
    """An old worker that died does not keep the row for ever."""
    store, execute = deployed
    filled(store, execute, of)
    (held,) = store.claims(of.work)
    assert (held.key, held.holder) == ("old", "before raceproof" if of is Job else None)
    later = held.until
    assert {one.key for one in store.claim(of.work, limit=10, now=later)} == {"new", "old"}


def test_a_row_that_was_given_back_stays_free(deployed: tuple[Store, Execute]) -> None:
    """Run again on a system that works already, it keeps no row from anyone."""
    store, execute = deployed
    for one in store.claim(Job.work, limit=10):
        store.release(one)
    filled(store, execute, Job)
    assert keys(store, Job.work) == {"new", "old"}


@pytest.mark.parametrize("of", [Job, Dated, Marked])
def test_a_row_that_has_a_holder_keeps_it(deployed: tuple[Store, Execute], of: Any) -> None:
    """Neither its lease nor its fence changes."""
    store, execute = deployed
    claims = store.claim(of.work, limit=10)
    filled(store, execute, of)
    assert [type(one) for one in store.renew(claims)] == [Claim, Claim]


def test_a_claim_that_leaves_the_status_has_none() -> None:
    """No statement can tell its rows in work from those that wait."""
    assert backfill(Staying, dialect="postgres") == []
