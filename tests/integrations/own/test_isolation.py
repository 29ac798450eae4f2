"""A transaction of our own decides on what is committed, whatever isolation level the connection begins with (P9)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from raceproof import Started, bind
from raceproof.testing import PostgresServer
from raceproof.testing.contract.attempts import logins
from tests.fix_waiting import DEADLINE
from tests.integrations.own.fix_kinds import ALONE, Case

POSTGRES = [kind for kind in ALONE if "sqlite" not in kind]
Rival = psycopg.Connection[Any]


def waiting(url: str, rival: Rival, sessions: int) -> None:
    """Return when so many sessions are seen waiting for what this one has not committed yet."""
    with psycopg.connect(url, autocommit=True) as beside:
        text = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        while beside.execute(text, (rival.info.backend_pid,)).fetchone() != (sessions,):
            pass


@contextmanager
def beside_a_sync_caller(work: Callable[[], None]) -> Iterator[None]:
    """In a thread, as the event loop stands still while a sync driver waits."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield
        done.result(DEADLINE)


@pytest.mark.parametrize("case", POSTGRES, indirect=True)
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
@pytest.mark.parametrize("history", [False, True])
async def test_a_start_sees_the_attempt_that_it_has_waited_for(
    case: Case, level: str, history: bool, postgres_server: PostgresServer
) -> None:
    """Two start at once: the second one waits, and then ends the first one's; without an index of the user's."""
    attempts, login = logins(case.ground, history)
    await case.own.run(f"SET default_transaction_isolation = '{level}'")
    with psycopg.connect(postgres_server.url) as rival:
        assert isinstance(bind(rival).start_attempt(attempts, "ann", "a1"), Started)

        def commit() -> None:
            waiting(postgres_server.url, rival, sessions=1)
            rival.commit()

        with beside_a_sync_caller(commit):
            answer = await case.db.start_attempt(attempts, "ann", "a2")
    assert isinstance(answer, Started)
    assert answer.superseded == "a1"
    found = [case.ground.get(login, key)["status"] for key in ("a1", "a2")]
    assert found == ["superseded", "pending"]
    (told,) = await case.own.run("SHOW default_transaction_isolation")
    assert told == (level,)
    assert not await case.own.run("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")


@pytest.mark.parametrize("case", POSTGRES, indirect=True)
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_start_that_begins_anew_sees_who_came_between(
    case: Case, level: str, postgres_server: PostgresServer
) -> None:
    """It gives up a transaction that could not see, and somebody else is the next one to have the owner's lock."""
    attempts, login = logins(case.ground)
    await case.own.run(f"SET default_transaction_isolation = '{level}'")
    url = postgres_server.url
    with psycopg.connect(url) as rival, psycopg.connect(url) as next_one, ThreadPoolExecutor(1) as pool:
        assert isinstance(bind(rival).start_attempt(attempts, "ann", "a1"), Started)

        def queue_up_behind_the_caller() -> None:
            waiting(url, rival, sessions=1)
            between = pool.submit(bind(next_one).start_attempt, attempts, "ann", "a2")
            waiting(url, rival, sessions=2)
            rival.commit()
            assert isinstance(between.result(DEADLINE), Started)
            waiting(url, next_one, sessions=1)
            next_one.commit()

        with beside_a_sync_caller(queue_up_behind_the_caller):
            answer = await case.db.start_attempt(attempts, "ann", "a3")
    assert isinstance(answer, Started)
    assert answer.superseded == "a2"
    found = [case.ground.get(login, key)["status"] for key in ("a1", "a2", "a3")]
    assert found == ["superseded", "superseded", "pending"]
