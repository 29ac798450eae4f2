"""`grants`: a role with exactly the printed rights makes every decision of the declarations, and nothing else."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from raceproof import Claim, LeaseGranted, Moved, Released, SendPermit, Started, Store, connect
from raceproof.inbox import Arrival
from raceproof.ops.grants import postgres_grants, redis_rule
from raceproof.ops.verify import verify
from tests.ops.cli.conftest import Cli
from tests.ops.cli.fix_working import WORKING, Place
from tests.ops.cli.working import Dated, Job, Line, Marked, bot_lease, events, logins, pictures

ROLE = "raceproof_worker"
LATER = datetime.now(UTC) + timedelta(hours=1)


def make_every_decision(db: Store, job: Callable[..., None], put: Callable[..., None]) -> None:
    """Each primitive once, with what wins, what loses and what looks."""
    for made_at, key in enumerate(("a", "b", "c")):
        job(key, made_at)
    first, second = db.claim(Job.work, 2, by="w")
    assert [type(one) for one in db.renew([first])] == [Claim]
    assert isinstance(db.release(second)[0], Released)
    failing = db.claim_one(Job.work, "b")
    assert isinstance(failing, Claim)
    assert isinstance(db.fail(failing, reason="no")[0], Released)
    assert isinstance(db.claim_one(Job.work, "c"), Claim)
    db.move(Job.finish, first, by="w").must()
    assert not db.move(Job.finish, "b", by="w").won
    assert not db.move(Job.finish, "nowhere").reached
    assert [type(one) for one in db.move_many(Job.finish, ["c"])] == [Moved]
    for hours in range(1, 5):
        db.claim(Job.work, 5, now=LATER + timedelta(hours=hours))
    assert (db.read(Job, "b") or {})["status"] == "DEAD"
    assert db.history(Job, "b")
    db.add_waiting(Line.work, ["l-1"])
    (line,) = db.claim(Line.work, 1)
    db.move(Line.finish, line).must()
    for work in (Dated.work, Marked.work):
        put("work_drafts", id=work.lifecycle.name, status="QUEUED")
        db.offer(work, [work.lifecycle.name])
        assert isinstance(db.claim_one(work, work.lifecycle.name), Claim)
    put("work_pictures", id="p", state="ready")
    permit = db.begin_delivery(pictures, "p", by="s")
    assert isinstance(permit, SendPermit)
    db.sending(permit)
    db.uncertain(permit)
    db.resolve(pictures, "p", arrived=True, by="me").must()
    assert isinstance(db.start_attempt(logins, "ann", "1"), Started)
    assert isinstance(db.start_attempt(logins, "ann", "2"), Started)
    assert db.current_attempt(logins, "ann")
    leading = db.acquire_lease(bot_lease, by="w")
    assert isinstance(leading, LeaseGranted)
    assert isinstance(db.renew_lease(leading), LeaseGranted)
    db.release_lease(leading).must()
    assert not db.receive(events, Arrival("shop", "e-1", b"{}")).duplicate
    assert db.receive(events, Arrival("shop", "e-1", b"{}")).duplicate
    (event,) = db.claim(events.work, 1)
    db.move(events.finish, event).must()


@pytest.fixture
def role(postgres_place: Place) -> Iterator[str]:
    """A role without any rights, and its URL."""
    parts = urlsplit(postgres_place.url)
    postgres_place.raw.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
    yield parts._replace(netloc=f"{ROLE}@{parts.netloc.rpartition('@')[2]}").geturl()
    postgres_place.raw.execute(f"DROP OWNED BY {ROLE}".encode())
    postgres_place.raw.execute(f"DROP ROLE {ROLE}".encode())


def test_a_role_of_postgresql_makes_every_decision_and_nothing_else(cli: Cli, postgres_place: Place, role: str) -> None:
    """The library's calls work; any other statement on the same tables is refused."""
    with connect(role) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.claim(Job.work, 1)
    for statement in cli("grants", "--app", WORKING, "--role", ROLE).stdout.splitlines():
        postgres_place.raw.execute(statement.encode())
    with connect(role) as db:
        make_every_decision(db, postgres_place.job, postgres_place.put)
        assert {one.level for one in verify(db, Job)} <= {"ok", "warning"}
    for statement in (
        "DELETE FROM work_jobs",
        "UPDATE work_jobs SET made_at = 1",
        "UPDATE work_jobs SET id = 'x'",
        "INSERT INTO work_jobs (id, status, attempts) VALUES ('x', 'QUEUED', 9)",
        "INSERT INTO work_pictures (id) VALUES ('x')",
        "UPDATE raceproof_history SET actor = 'me'",
        "DELETE FROM raceproof_history",
        "DELETE FROM work_inbox",
        "DELETE FROM work_leases",
        "TRUNCATE work_jobs",
        "ALTER TABLE work_jobs ADD COLUMN x text",
        "CREATE TABLE other (id text)",
    ):
        with psycopg.connect(role) as own, pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute(statement.encode())


def test_a_role_that_reads_sees_everything_and_decides_nothing(cli: Cli, postgres_place: Place, role: str) -> None:
    """For the dashboard, show and explain."""
    postgres_place.job("a")
    for statement in cli("grants", "--app", WORKING, "--role", ROLE, "--read-only").stdout.splitlines():
        postgres_place.raw.execute(statement.encode())
    with connect(role) as db:
        assert (db.read(Job, "a") or {})["status"] == "QUEUED"
        assert (db.history(Job, "a"), db.claims(Job.work), db.deliveries(pictures)) == ([], [], [])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.move(Job.start, "a")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.acquire_lease(bot_lease, by="w")


def test_only_a_role_that_sweeps_deletes(postgres_place: Place, role: str) -> None:
    """Old histories and events, and no rows of the user's."""
    for statement in postgres_grants(Job, events, role=ROLE, sweep=True):
        postgres_place.raw.execute(statement.encode())
    with psycopg.connect(role, autocommit=True) as own:
        own.execute("DELETE FROM raceproof_history")
        own.execute("DELETE FROM work_inbox")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute("DELETE FROM work_jobs")


def as_user(place: Place, rule: str) -> str:
    """Make the user of a rule, with a password, and its URL."""
    admin: Any = place.raw
    admin.execute_command(*rule.split(), ">secret")
    parts = urlsplit(place.url)
    return parts._replace(netloc=f"{ROLE}:secret@{parts.netloc}").geturl()


@pytest.fixture
def valkey_user(valkey_place: Place) -> Iterator[Place]:
    yield valkey_place
    valkey_place.raw.execute_command("ACL", "DELUSER", ROLE)


def test_a_user_of_valkey_makes_every_decision_and_nothing_else(cli: Cli, valkey_user: Place) -> None:
    """No other key, no other channel, and no command that the scripts do not need."""
    rule = cli("grants", "--app", WORKING, "--role", ROLE, "--dialect", "redis").stdout.strip()
    url = as_user(valkey_user, rule)
    with connect(url) as db:
        make_every_decision(db, valkey_user.job, valkey_user.put)
    with redis.Redis.from_url(url) as own:
        for command in (
            ("HSET", "other:1", "status", "x"),
            ("GET", "work_jobsx:1"),
            ("FLUSHDB",),
            ("KEYS", "*"),
            ("CONFIG", "GET", "*"),
            ("ACL", "LIST"),
            ("DEL", "work_jobs:a"),
            ("PUBLISH", "other", "x"),
            ("EVAL", "return redis.call('FLUSHDB')", 0),
        ):
            with pytest.raises(redis.ResponseError):
                own.execute_command(*command)


def test_a_user_of_valkey_that_reads_writes_nothing(cli: Cli, valkey_user: Place) -> None:
    """Neither by a command nor by a script."""
    valkey_user.job("a")
    rule = cli("grants", "--app", WORKING, "--role", ROLE, "--dialect", "redis", "--read-only").stdout.strip()
    patterns = [word for word in rule.split() if "~" in word]
    assert len(patterns) > 5
    assert all(word.startswith("%R~") for word in patterns)
    url = as_user(valkey_user, rule)
    with connect(url) as db:
        assert (db.read(Job, "a") or {})["status"] == "QUEUED"
        assert db.history(Job, "a") == []
        with pytest.raises(Exception, match=r"(?i)permission"):
            db.move(Job.start, "a")
    assert valkey_user.raw.hget("work_jobs:a", "status") == "QUEUED"


def test_names_are_never_more_than_names() -> None:
    """Neither of a role nor of a table."""
    assert postgres_grants(bot_lease, role='x"; DROP TABLE y; --')[0].endswith('TO "x""; DROP TABLE y; --";')
    with pytest.raises(Exception, match="role must be a name without spaces"):
        redis_rule(bot_lease, role="a on nopass")


def test_what_cannot_be_is_said(cli: Cli, sqlite_place: Place) -> None:
    """SQLite has no roles, and a reader does not delete."""
    run = ("grants", *sqlite_place.target, "--role", "x")
    assert "SQLite has no roles" in cli(*run).stderr
    both = cli("grants", "--app", WORKING, "--role", "x", "--read-only", "--sweep")
    assert (both.exit_code, "leave out --read-only" in both.stderr) == (2, True)
    assert cli("grants", "--app", WORKING).exit_code == 2
