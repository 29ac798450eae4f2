"""Triggers and constraints of the user's own that keep the library from writing: nobody is told that it did (P3, P13)."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from raceproof import Claim, Lost, Store, Taken, bind
from raceproof.kernel.errors import CallError
from raceproof.testing import PostgresServer
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Caller, Ground, PostgresGround, SqliteGround
from raceproof.testing.contract.jobs import jobs, put


@pytest.fixture(params=["sqlite3", "psycopg"])
def own(request: pytest.FixtureRequest) -> Iterator[tuple[Ground, Callable[..., Any]]]:
    """A connection of the user's, and a way to run SQL on it."""
    if request.param == "sqlite3":
        connection: Any = sqlite3.connect(":memory:", isolation_level=None)
        kind: Any = SqliteGround
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        connection = psycopg.connect(server.url, autocommit=True)
        kind = PostgresGround
    store: Store = bind(connection)

    def run(text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        cursor = connection.execute(text, values)
        return list(cursor.fetchall()) if cursor.description else []

    yield kind(Caller(store), run), run
    connection.close()


def passing_over(run: Callable[..., Any], ground: Ground, table: str, column: str, value: str) -> None:
    """A trigger that keeps each update away which would write this value."""
    if isinstance(ground, SqliteGround):
        run(
            f"CREATE TRIGGER {table}_over BEFORE UPDATE ON {table} WHEN NEW.{column} = '{value}'"
            " BEGIN SELECT RAISE(IGNORE); END"
        )
        return
    run(
        f"CREATE FUNCTION {table}_over() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF NEW.{column} = '{value}' THEN RETURN NULL; END IF; RETURN NEW; END $$"
    )
    run(f"CREATE TRIGGER {table}_over BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_over()")


def refusing(run: Callable[..., Any], ground: Ground, table: str, status: str) -> None:
    """No row may be at this status."""
    if isinstance(ground, SqliteGround):
        run(
            f"CREATE TRIGGER {table}_not BEFORE UPDATE ON {table} WHEN NEW.status = '{status}'"
            " BEGIN SELECT RAISE(ABORT, 'never'); END"
        )
    else:
        run(f"ALTER TABLE {table} ADD CHECK (status <> '{status}')")


async def test_a_claim_that_a_trigger_passes_over_is_nobodys(own: tuple[Ground, Callable[..., Any]]) -> None:
    """Neither by search nor by key; and others are claimed."""
    ground, run = own
    job = jobs(ground)
    await put(ground, job, "a", "b")
    passing_over(run, ground, job.table, "claimed_by", "banned")
    work = job.claims["work"]
    assert await ground.db.claim(work, 5, by="banned", now=NOON) == []
    answer = await ground.db.claim_one(work, "a", by="banned", now=NOON)
    assert isinstance(answer, Taken)
    assert "trigger" in str(answer)
    assert ground.get(job, "a")["status"] == "QUEUED"
    assert [one.key for one in await ground.db.claim(work, 5, by="ann", now=NOON)] == ["a", "b"]


async def test_a_renewal_that_a_trigger_passes_over_is_not_told_as_one(
    own: tuple[Ground, Callable[..., Any]],
) -> None:
    """The lease was not begun anew, so its holder must not believe it."""
    ground, run = own
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], by="ann", now=NOON)
    passing_over(run, ground, job.table, "claimed_by", "ann")
    (renewal,) = await ground.db.renew(mine, now=after(20))
    assert isinstance(renewal, Lost)
    assert len(await ground.db.claim(job.claims["work"], by="bob", now=after(31))) == 1


async def test_what_hinders_one_row_from_being_dead_letter_takes_no_other_away(
    own: tuple[Ground, Callable[..., Any]],
) -> None:
    """P13: rows that the same call has claimed are handed out; with none, the error is told."""
    ground, run = own
    job = jobs(ground)
    await put(ground, job, "spent", attempts=3)
    await put(ground, job, "a", "b")
    refusing(run, ground, job.table, "DEAD")
    work = job.claims["work"]
    claims = await ground.db.claim(work, 5, now=NOON)
    assert [one.key for one in claims] == ["a", "b"]
    assert all(answer.won for answer in await ground.db.move_many(job.moves["finish"], claims))
    with pytest.raises((psycopg.errors.CheckViolation, sqlite3.IntegrityError)):
        await ground.db.claim(work, 5, now=NOON)


async def test_a_claim_without_a_fence_can_write_nothing(own: tuple[Ground, Callable[..., Any]]) -> None:
    """P4: a claim that no store has given."""
    ground, _ = own
    job = jobs(ground)
    await put(ground, job, "a")
    made_up: Any = Claim("a", job.claims["work"], None, "ann", 1, "QUEUED", 0.0, None)
    with pytest.raises(CallError, match="no fence"):
        await ground.db.move(job.moves["give_up"], made_up)


async def test_an_attempt_that_a_trigger_keeps_open_lets_no_other_start(
    own: tuple[Ground, Callable[..., Any]],
) -> None:
    """P9: nothing of the start is kept, rather than two that are open."""
    ground, run = own
    attempts, login = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    passing_over(run, ground, login.table, "status", "superseded")
    with pytest.raises(CallError, match="could not be ended"):
        await ground.db.start_attempt(attempts, "ann", "a2", now=after(1))
    assert run(f"SELECT login_id, status FROM {login.table}") == [("a1", "pending")]
