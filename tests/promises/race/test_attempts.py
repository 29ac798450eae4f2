"""Attempts under real races (P9): eight processes start attempts of the same owner."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import cast
from uuid import UUID

import psycopg
import pytest

from raceproof import AlreadyActive, Attempts, Refused, Started, bind, connect
from raceproof.attempts import Rejected
from raceproof.declare import Spec
from raceproof.testing import PostgresServer
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.grounds import Ground, PostgresGround
from tests.fix_beside import runner
from tests.fix_waiting import blocked, until_blocked
from tests.promises.race.beside import beside, keys_at
from tests.promises.race.places import Place, PostgresPlace
from tests.promises.race.processes import Barrier, race

WORKERS = 8
ROUNDS = 8


def prepared(place: Place, history: bool = False) -> tuple[Attempts, Spec[str]]:
    with beside(place) as ground:
        return logins(ground, history)


def open_ones(ground: Ground, login: Spec[str]) -> list[str]:
    return [key for status in ("pending", "scanned") for key in keys_at(ground, login, status)]


def test_each_start_ends_exactly_its_predecessor_and_one_stays_open(place: Place) -> None:
    """What each one superseded makes one chain from the first to the last: so there never were two at once."""
    attempts, login = prepared(place, history=True)

    def job(number: int, barrier: Barrier) -> list[tuple[str, str | None]]:
        made = []
        with connect(place.url) as db:
            for turn in range(ROUNDS):
                barrier.wait()
                key = f"a{turn}-{number}"
                answer = db.start_attempt(attempts, "ann", key, by=f"process {number}")
                assert isinstance(answer, Started)
                made.append((key, answer.superseded))
                # whoever is no longer the active one can write nothing: its status says so
                moved = db.move(login.moves["scan"], key)
                assert moved.won or (isinstance(moved, Refused) and moved.status == "superseded")
        return made

    made = dict(one for found in race(job, WORKERS) for one in found)
    assert len(made) == WORKERS * ROUNDS
    ended = Counter(made.values())
    assert max(ended.values()) == 1
    (last,) = set(made) - set(ended)
    with beside(place) as ground, connect(place.url) as db:
        assert open_ones(ground, login) == [last]
        successor: str | None = None
        key: str | None = last
        length = 0
        while key is not None:
            row, entries = ground.get(login, key), list(reversed(db.history(login, key)))
            moves = [entry.move for entry in entries]
            assert row["superseded_by"] == successor
            # started, perhaps scanned, superseded: nothing after the end, nothing twice
            assert moves[0] == "attempt"
            assert moves[1:] in ([["supersede"], ["scan", "supersede"]] if successor is not None else [[], ["scan"]])
            successor, key, length = key, made[key], length + 1
    assert length == len(made)


@pytest.mark.parametrize("when_open", ["supersede", "keep", "reject"])
def test_an_attempt_that_is_being_finished_is_neither_superseded_nor_kept(
    postgres_server: PostgresServer, when_open: str
) -> None:
    """P9: a start waits for the end of the open one, and decides on what it is then."""
    place = PostgresPlace(postgres_server.url)
    attempts, login = prepared(place)
    with (
        psycopg.connect(place.url) as slow,
        psycopg.connect(place.url, autocommit=True) as watching,
        connect(place.url) as db,
        ThreadPoolExecutor(1) as pool,
    ):
        db.start_attempt(attempts, "ann", "a1").must()
        db.move(login.moves["scan"], "a1").must()
        bind(slow).move(login.moves["finish"], "a1").must()
        starting = pool.submit(db.start_attempt, attempts, "ann", "a2", when_open=when_open)  # type: ignore[arg-type]
        while not starting.done() and not blocked(runner(watching), login.table):
            pass
        slow.commit()
        answer = starting.result(30)
        assert isinstance(answer, Started)
        assert answer.superseded is None
        assert [db.read(login, key)["status"] for key in ("a1", "a2")] == ["done", "pending"]  # type: ignore[index]


def test_without_the_guard_an_owner_has_several_active_attempts(place: Place) -> None:
    """The control: look for an open one, end it, insert the new one."""
    _, login = prepared(place)

    def job(number: int, barrier: Barrier) -> None:
        with beside(place) as ground:
            barrier.wait()
            found = open_ones(ground, login)
            barrier.wait()
            if not found:
                ground.put(login, f"a{number}", "pending", owner="ann")

    race(job, WORKERS)
    with beside(place) as ground:
        assert len(open_ones(ground, login)) > 1


@pytest.mark.parametrize("when_open", ["keep", "reject"])
def test_of_many_who_keep_or_respect_an_open_one_exactly_one_starts(place: Place, when_open: str) -> None:
    """The others learn which one it is."""
    attempts, login = prepared(place)
    owners = [f"owner {number}" for number in range(10)]

    def job(number: int, barrier: Barrier) -> list[tuple[str, str]]:
        told = []
        with connect(place.url) as db:
            for owner in owners:
                barrier.wait()
                answer = db.start_attempt(attempts, owner, f"{owner} {number}", when_open=when_open)  # type: ignore[arg-type]
                active = answer.active if isinstance(answer, Rejected) else answer.key
                assert isinstance(answer, Started | AlreadyActive | Rejected)
                told.append((answer.outcome, str(active)))
        return told

    for answers in zip(*race(job, WORKERS), strict=True):
        other = "already active" if when_open == "keep" else "rejected"
        assert Counter(outcome for outcome, _ in answers) == {"started": 1, other: WORKERS - 1}
        assert len({active for _, active in answers}) == 1
    with beside(place) as ground:
        assert len(open_ones(ground, login)) == len(owners)


def test_the_same_start_by_many_makes_one_attempt(place: Place) -> None:
    """Replays: one started it, the others are told the same; nothing is reset."""
    attempts, login = prepared(place, history=True)
    keys = [f"a{number}" for number in range(10)]

    def job(number: int, barrier: Barrier) -> list[bool]:
        told = []
        with connect(place.url) as db:
            for key in keys:
                barrier.wait()
                answer = db.start_attempt(attempts, "ann", key)
                assert isinstance(answer, Started)
                told.append(answer.replayed)
                barrier.wait()
        return told

    for replayed in zip(*race(job, WORKERS), strict=True):
        assert Counter(replayed) == {True: WORKERS - 1, False: 1}
    with beside(place) as ground:
        assert open_ones(ground, login) == [keys[-1]]


def test_of_many_owners_who_want_one_key_one_gets_it_and_the_others_are_told(
    place: Place,
) -> None:
    """Losing a race is a value, never an exception (L2)."""
    attempts, _ = prepared(place)
    keys = [f"x{number}" for number in range(10)]

    def job(number: int, barrier: Barrier) -> list[str]:
        told = []
        with connect(place.url) as db:
            for key in keys:
                barrier.wait()
                try:
                    told.append(db.start_attempt(attempts, f"owner {number}", key).outcome)
                except Exception as error:
                    told.append(type(error).__name__)
        return told

    for outcomes in zip(*race(job, WORKERS), strict=True):
        assert Counter(outcomes) == {"started": 1, "rejected": WORKERS - 1}


def test_the_current_attempt_is_always_an_open_one(place: Place) -> None:
    """Whoever asks while others start is told one that was current meanwhile, never one that had ended, never none."""
    attempts, _ = prepared(place)
    with connect(place.url) as db:
        db.start_attempt(attempts, "ann", "first")

    def job(number: int, barrier: Barrier) -> set[str]:
        seen = set()
        with connect(place.url) as db:
            barrier.wait()
            for turn in range(150):
                if number:
                    db.start_attempt(attempts, "ann", f"a{turn}-{number}")
                else:
                    row = db.current_attempt(attempts, "ann")
                    seen.add("none" if row is None else str(row["status"]))
        return seen

    assert race(job, 2)[0] == {"pending"}


def test_an_owner_is_the_same_however_it_is_spelled(postgres_server: PostgresServer) -> None:
    """P9, without the unique index: a UUID in capitals waits for the one in small letters, and ends its attempt."""
    place = PostgresPlace(postgres_server.url)
    with beside(place) as ground:
        attempts, login = logins(ground)
        run = cast(PostgresGround, ground).run
        run(f"ALTER TABLE {login.table} ALTER owner TYPE uuid USING owner::uuid")
        owner = UUID("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")
        with psycopg.connect(place.url) as one, psycopg.connect(place.url) as two:
            assert isinstance(bind(one).start_attempt(attempts, owner, "a1"), Started)
            with ThreadPoolExecutor(1) as beside_us:
                second = beside_us.submit(bind(two).start_attempt, attempts, str(owner).upper(), "a2")
                asyncio.run(until_blocked(run, login.table))
                one.commit()
                answer = second.result()
            two.commit()
        assert isinstance(answer, Started)
        assert answer.superseded == "a1"
        assert open_ones(ground, login) == ["a2"]
