"""A database seen from beside: by a connection of the test's own, without the library in between."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from raceproof import bind
from raceproof.testing.contract.grounds import Caller, PostgresGround

Rows = list[tuple[Any, ...]]


def runner(connection: "psycopg.Connection[Any]") -> Callable[..., Rows]:
    """Runs any statement and returns its rows, if it has some."""

    def run(text: str, params: Any = None) -> Rows:
        cursor = connection.execute(text.encode(), params)
        return cursor.fetchall() if cursor.description else []

    return run


@contextmanager
def postgres_beside(url: str) -> Iterator[PostgresGround]:
    """PostgreSQL, with a store on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield PostgresGround(Caller(bind(connection)), runner(connection))
