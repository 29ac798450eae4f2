"""Effects in the transaction of the finish (P6): eight processes have worked on a row, and each writes what it did."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from raceproof import Claim, Moved, bind
from raceproof.declare import Spec
from raceproof.testing.contract.clock import after
from raceproof.testing.contract.jobs import jobs
from tests.promises.race.beside import beside
from tests.promises.race.places import Place
from tests.promises.race.processes import Barrier, race

WORKERS = 8
LEASE = 30
KEYS = [f"j{number}" for number in range(6)]

pytestmark = pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)


def prepared(place: Place) -> Spec[str]:
    """Jobs with a history, and a table for effects, which would take the same one twice."""
    with beside(place) as ground:
        spec = jobs(ground, history=True, claim={"max_attempts": None, "dead_letter": None})
        for number, key in enumerate(KEYS):
            ground.put(spec, key, "QUEUED", made_at=number)
        ground.run(f"CREATE TABLE {spec.table}_effects (job_id text, by text)")  # type: ignore[attr-defined]
    return spec


def effects(place: Place, spec: Spec[str]) -> list[tuple[str, str]]:
    with beside(place) as ground:
        found = ground.run(f"SELECT job_id, by FROM {spec.table}_effects ORDER BY job_id")  # type: ignore[attr-defined]
        return [(str(key), str(by)) for key, by in found]


@contextmanager
def own_connection(place: Place) -> Iterator[Any]:
    """A connection of the calling process, on which it begins and ends transactions itself."""
    if place.url.startswith("sqlite"):
        connection: Any = sqlite3.connect(place.url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    else:
        connection = psycopg.connect(place.url, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


def held_by_all(db: Any, spec: Spec[str], key: str, number: int, barrier: Barrier) -> Claim[str, Any]:
    """Each process takes the row over from the one before: all have a claim on it, and the last one's counts."""
    mine: Claim[str, Any] | None = None
    for permit in range(WORKERS):
        if permit == number:
            mine = db.claim_one(spec.claims["work"], key, by=f"process {number}", now=after(permit * 2 * LEASE))
        barrier.wait()
    assert isinstance(mine, Claim)
    return mine


@pytest.mark.parametrize("repeated", [False, True], ids=["plain", "repeated"])
def test_of_all_who_worked_on_a_row_one_has_its_effects_kept(place: Place, repeated: bool) -> None:
    """P6: those who lost roll back; also where the finish is a repeated call, which is several statements."""
    spec = prepared(place)

    def job(number: int, barrier: Barrier) -> list[str]:
        won = []
        with own_connection(place) as connection:
            db = bind(connection)
            for key in KEYS:
                mine = held_by_all(db, spec, key, number, barrier)
                connection.execute("BEGIN")
                connection.execute(f"INSERT INTO {spec.table}_effects VALUES ('{key}', 'process {number}')")
                call = f"{key} of process {number}" if repeated else None
                if isinstance(db.move(spec.moves["finish"], mine, call=call), Moved):
                    connection.execute("COMMIT")
                    won.append(key)
                else:
                    connection.execute("ROLLBACK")
        return won

    won = race(job, WORKERS)
    last = WORKERS - 1
    assert won == [[]] * last + [KEYS]
    assert effects(place, spec) == [(key, f"process {last}") for key in KEYS]


def test_with_a_transaction_for_each_the_effects_of_all_are_kept(place: Place) -> None:
    """The control: the effect is committed, and then the finish is refused."""
    spec = prepared(place)

    def job(number: int, barrier: Barrier) -> None:
        with own_connection(place) as connection:
            db = bind(connection)
            for key in KEYS:
                mine = held_by_all(db, spec, key, number, barrier)
                connection.execute(f"INSERT INTO {spec.table}_effects VALUES ('{key}', 'process {number}')")
                db.move(spec.moves["finish"], mine)

    race(job, WORKERS)
    assert len(effects(place, spec)) == WORKERS * len(KEYS)
