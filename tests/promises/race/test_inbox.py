"""The inbox under real races (P8): eight processes are brought the same events, and eight work on them."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from raceproof import Inbox, Lifecycle, Moved, bind, connect
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.testing import PostgresServer, ValkeyServer
from raceproof.testing.contract.grounds import fresh_name
from tests.fix_waiting import blocked
from tests.promises.race.beside import beside, keys_at
from tests.promises.race.places import Place, PostgresPlace, RedisPlace
from tests.promises.race.processes import Barrier, race

WORKERS = 8


def prepared(place: Place) -> Inbox:
    inbox = Inbox(fresh_name("inbox"))
    with beside(place) as ground:
        ground.inbox_table(inbox)
    return inbox


def test_each_event_is_new_exactly_once(place: Place) -> None:
    """However many bring it, and in whatever order."""
    inbox = prepared(place)
    events = [str(number) for number in range(40)]

    def job(number: int, barrier: Barrier) -> list[str]:
        mine = random.Random(number).sample(events, len(events))
        with connect(place.url) as db:
            barrier.wait()
            told = [db.receive(inbox, Arrival("t", event, b"{}")) for event in mine]
            return [one.key[1] for one in told if not one.duplicate]

    assert Counter(event for new in race(job, WORKERS) for event in new) == Counter(events)


def test_events_that_are_brought_together_are_new_exactly_once(
    place: Place,
) -> None:
    """All in one statement, each process in an order of its own, and yet nobody waits for another in a ring."""
    inbox = prepared(place)
    events = [str(number) for number in range(200)]

    def job(number: int, barrier: Barrier) -> list[str]:
        mine = random.Random(number).sample(events, len(events))
        with connect(place.url) as db:
            barrier.wait()
            told = db.receive_many(inbox, [Arrival("t", event, b"{}") for event in mine])
            return [one.key[1] for one in told if not one.duplicate]

    assert Counter(event for new in race(job, WORKERS) for event in new) == Counter(events)


def test_without_the_unique_key_an_event_is_worked_on_several_times(place: Place) -> None:
    """The control: look whether it is there, then insert it."""
    kept = Lifecycle.from_dict(
        {
            "name": "Event",
            "table": fresh_name("events"),
            "statuses": ["received", "done"],
            "moves": {"finish": {"from": ["received"], "to": "done"}},
        }
    )
    with beside(place) as ground:
        ground.table(kept)

    def job(number: int, barrier: Barrier) -> None:
        with beside(place) as ground:
            barrier.wait()
            there = keys_at(ground, kept, "received")
            barrier.wait()
            if not there:
                ground.put(kept, f"event brought by {number}", "received")

    race(job, WORKERS)
    with beside(place) as ground:
        assert len(keys_at(ground, kept, "received")) > 1


def test_each_event_is_worked_on_once_and_those_of_one_user_in_order(place: Place) -> None:
    """Eight workers, five users: nobody has two of a user at once, and each user's come in their order."""
    inbox = prepared(place)
    users, length = 4, 8
    arrivals = [
        Arrival("t", f"{user}-{number:02}", b"{}", {}, f"user {user}")
        for number in range(length)
        for user in range(users)
    ]
    with connect(place.url) as db:
        for one in arrivals:
            db.receive(inbox, one)

    def before(db: Any, key: tuple[str, str]) -> str:
        user, _, number = key[1].partition("-")
        found = db.read(inbox.lifecycle, ("t", f"{user}-{int(number) - 1:02}"))
        return "done" if found is None else str(found["status"])

    def job(number: int, barrier: Barrier) -> list[str]:
        done: list[str] = []
        idle = 0
        with connect(place.url) as db:
            barrier.wait()
            while idle < 40:
                claims = db.claim(inbox.work, 3, by=f"process {number}")
                idle = 0 if claims else idle + 1
                for one in claims:
                    assert before(db, one.key) == "done"
                    assert isinstance(db.move(inbox.finish, one), Moved)
                    done.append(one.key[1])
        return done

    done = Counter(event for found in race(job, WORKERS) for event in found)
    with connect(place.url) as db:
        while claims := db.claim(inbox.work, 10):
            done.update(one.key[1] for one in claims)
            db.move_many(inbox.finish, claims)
    assert done == Counter(one.event_id for one in arrivals)


def test_an_event_waits_until_an_earlier_one_of_its_user_is_committed(
    postgres_server: PostgresServer,
) -> None:
    """Places in a line are given in the order of the commits, so that nobody comes first who was not seen."""
    place = PostgresPlace(postgres_server.url)
    inbox = prepared(place)
    with (
        psycopg.connect(place.url) as slow,
        psycopg.connect(place.url, autocommit=True) as watching,
        connect(place.url) as db,
        ThreadPoolExecutor(1) as pool,
    ):
        bind(slow).receive(inbox, Arrival("t", "slow", b"{}", {}, "ann"))
        quick = pool.submit(db.receive, inbox, Arrival("t", "quick", b"{}", {}, "ann"))
        while not watching.execute(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE %s",
            (f"%{inbox.table}%",),
        ).fetchone():
            assert not quick.done()
        slow.commit()
        assert not quick.result(30).duplicate
        assert [one.key[1] for one in db.claim(inbox.work, 10)] == ["slow"]


def test_an_event_that_is_being_revived_is_not_forgotten(postgres_server: PostgresServer) -> None:
    """A sweep that comes before the commit deletes what is old, and not what was old when it began."""
    place = PostgresPlace(postgres_server.url)
    inbox = prepared(place)
    with (
        psycopg.connect(place.url) as operator,
        psycopg.connect(place.url, autocommit=True) as watching,
        connect(place.url) as db,
        ThreadPoolExecutor(1) as pool,
    ):
        db.receive_many(inbox, [Arrival("t", "revived", b"{}"), Arrival("t", "old", b"{}")])
        watching.execute(f"UPDATE {inbox.table} SET status = 'dead', ended_at = '2020-01-01'".encode())
        bind(operator).move(inbox.lifecycle.moves["revive"], ("t", "revived")).must()
        sweeping = pool.submit(db.forget_events, inbox)
        while not sweeping.done() and not blocked(lambda text: watching.execute(text).fetchall(), inbox.table):
            pass
        operator.commit()
        assert sweeping.result(30) == 1
        assert [one.key for one in db.claim(inbox.work, 10)] == [("t", "revived")]
        assert db.read(inbox.lifecycle, ("t", "old")) is None


def test_a_batch_that_comes_right_after_an_event_of_the_same_user_stays_behind_it(
    valkey_server: ValkeyServer,
) -> None:
    """Redis keeps the order of a batch by microseconds, which must not lead past what is there already."""
    place = RedisPlace(valkey_server.url)
    inbox = prepared(place)
    noon = datetime(2030, 1, 2, 12, tzinfo=UTC)
    with connect(place.url) as db:
        db.receive(inbox, Arrival("t", "first", b"{}", {}, "ann"), now=noon)
        assert [one.key[1] for one in db.claim(inbox.work, 10, now=noon)] == ["first"]
        batch = [Arrival("t", str(number), b"{}", {}, "ann") for number in range(5)]
        db.receive_many(inbox, batch, now=noon + timedelta(microseconds=2))
        assert db.claim(inbox.work, 10, now=noon + timedelta(seconds=1)) == []


def test_a_duplicate_does_not_wait_for_whoever_has_the_event_locked(
    postgres_server: PostgresServer,
) -> None:
    """A sender that brings an event again is answered while a transaction has the event locked."""
    place = PostgresPlace(postgres_server.url)
    inbox = prepared(place)
    with psycopg.connect(place.url) as slow, connect(place.url) as db:
        db.receive(inbox, Arrival("t", "1", b"{}"))
        slow.execute(f"SELECT 1 FROM {inbox.table} FOR NO KEY UPDATE".encode())
        with psycopg.connect(place.url, autocommit=True) as session:
            session.execute("SET lock_timeout = '1ms'")
            assert bind(session).receive(inbox, Arrival("t", "1", b"{}")).duplicate


def test_an_event_that_a_trigger_drops_is_an_error_and_not_a_duplicate(
    postgres_server: PostgresServer,
) -> None:
    """An answer says that the event is kept; this one is not."""
    place = PostgresPlace(postgres_server.url)
    inbox = prepared(place)
    with psycopg.connect(place.url, autocommit=True) as session:
        session.execute(
            f"CREATE FUNCTION drop_{inbox.table}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'".encode()
        )
        session.execute(
            f"CREATE TRIGGER dropping BEFORE INSERT ON {inbox.table} FOR EACH ROW"
            f" EXECUTE FUNCTION drop_{inbox.table}()".encode()
        )
        with pytest.raises(CallError, match="not inserted and are not there either"):
            bind(session).receive(inbox, Arrival("t", "1", b"{}"))
