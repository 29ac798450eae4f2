"""Settings that void a promise are planted on real servers: each is reported with what it voids, and with its repair."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from raceproof import bind, connect
from raceproof.ops.doctor import Diagnosis, Problem, diagnose
from raceproof.testing.servers import wait_until
from tests.ops.doctor.conftest import Ill, schema
from tests.ops.doctor.declared import Job
from tests.ops.doctor.fix_servers import PlainPostgres, PlainValkey, Standby

OURS = ("durability", "primary", "eviction")
NAMES = (
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "zero_damaged_pages",
)


def of_settings(found: Diagnosis) -> list[Problem]:
    return [one for one in found.problems if one.check in OURS]


def could_not_check(found: Diagnosis) -> list[str]:
    return [one.note for one in found.checked if one.skipped and "could not check" in one.note]


# PostgreSQL


@pytest.fixture(scope="module")
def _server() -> Iterator[PlainPostgres]:
    with PlainPostgres() as server:
        yield server


@pytest.fixture
def server(_server: PlainPostgres) -> Iterator[PlainPostgres]:
    """A PostgreSQL to misconfigure, with a database of the shop's."""
    yield _server
    _server.reset(*NAMES)


@pytest.fixture
def url(server: PlainPostgres) -> str:
    return server.database()


def look(url: str, *things: Any) -> Diagnosis:
    with connect(url) as db:
        return diagnose(db, *things)


def test_a_server_as_it_is_installed_has_no_such_problem(url: str) -> None:
    """Nothing is reported, and everything could be checked."""
    found = look(url)
    assert of_settings(found) == []
    assert could_not_check(found) == []
    assert {one.check for one in found.checked} >= {"durability", "primary"}


@pytest.mark.parametrize(
    ("name", "value", "check", "level", "voids"),
    [
        ("fsync", "off", "durability", "error", "A1"),
        ("synchronous_commit", "off", "durability", "error", "A1"),
        ("full_page_writes", "off", "durability", "warning", "A1"),
        ("zero_damaged_pages", "on", "durability", "error", "A1"),
        ("default_transaction_read_only", "on", "primary", "error", "P13"),
    ],
)
def test_a_setting_of_the_server_is_found_and_repaired(
    server: PlainPostgres, url: str, name: str, value: str, check: str, level: str, voids: str
) -> None:
    """By what is printed, pasted into psql."""
    server.set(name, value)
    (problem,) = of_settings(look(url))
    assert (problem.check, problem.level, problem.target) == (check, level, "store")
    assert problem.what.startswith(f"{name} is {value}: ")
    assert f"(voids {voids}" in problem.what
    assert problem.repair is not None
    assert (problem.repair.way, problem.repair.safe) == ("sql", False)
    server.paste(problem.repair.text, url)
    server.reload(name, {"on": "off", "off": "on"}[value])
    assert of_settings(look(url)) == []


ROLES = {
    "a role": ("ALTER ROLE app SET {}", "role app", "app"),
    "another role": ("ALTER ROLE app SET {}", "role app", "postgres"),
    "the database": ('ALTER DATABASE "{db}" SET {}', "database {db}", "app"),
    "a role in the database": (
        'ALTER ROLE app IN DATABASE "{db}" SET {}',
        "role app in database {db}",
        "app",
    ),
    "all roles": ("ALTER ROLE ALL SET {}", "all roles", "app"),
}


@pytest.fixture
def role(server: PlainPostgres) -> Iterator[str]:
    server.psql("CREATE ROLE app LOGIN")
    yield "app"
    server.psql("ALTER ROLE ALL RESET ALL")
    server.psql("DROP ROLE app")


@pytest.mark.parametrize("whose", ROLES)
@pytest.mark.parametrize("value", ["off", "False"])
def test_a_setting_of_a_role_or_a_database_is_found_and_repaired(
    server: PlainPostgres, url: str, role: str, whose: str, value: str
) -> None:
    """Also by those to whom it does not apply: the application may log in as another role."""
    change, whom, who = ROLES[whose]
    db = url.rpartition("/")[2]
    server.psql(change.format(f"synchronous_commit = {value}", db=db))
    seen_by = url.replace("postgres@", f"{who}@")
    (problem,) = of_settings(look(seen_by))
    assert problem.what.startswith(f"synchronous_commit is off for {whom.format(db=db)}: ")
    assert problem.repair is not None
    server.paste(problem.repair.text, url)
    assert of_settings(look(seen_by)) == []


@pytest.mark.parametrize("whose", ["a role", "the database", "a role in the database", "all roles"])
def test_a_session_that_is_read_only_by_default_is_found_and_repaired(
    server: PlainPostgres, url: str, role: str, whose: str
) -> None:
    """Of a role that looks: one that only reads for reports is not an illness."""
    change, _, _ = ROLES[whose]
    server.psql(change.format("default_transaction_read_only = on", db=url.rpartition("/")[2]))
    seen_by = url.replace("postgres@", "app@")
    (problem,) = of_settings(look(seen_by))
    assert (problem.check, problem.level) == ("primary", "error")
    assert bool(of_settings(look(url))) == (whose in ("the database", "all roles"))
    assert problem.repair is not None
    with psycopg.connect(url, autocommit=True) as session:
        for line in problem.repair.text.split("\n"):
            session.execute(line.encode())
    assert of_settings(look(seen_by)) == []


def test_a_setting_of_the_connection_itself_is_found(url: str) -> None:
    """No command of the server's can repair it, so it is advice."""
    (problem,) = of_settings(look(f"{url}?options=-c%20synchronous_commit%3Doff"))
    assert problem.what.startswith("synchronous_commit is off: ")
    assert problem.repair is not None
    assert problem.repair.way == "advice"
    assert "remove it from the options of the URL" in problem.repair.text


async def test_an_async_store_finds_the_same(server: PlainPostgres, url: str) -> None:
    server.set("fsync", "off")
    async with connect(url) as db:
        (problem,) = of_settings(await diagnose(db))
    assert problem.what.startswith("fsync is off: ")


def test_a_setting_of_the_command_line_is_found(postgres_server: Any) -> None:
    """It wins over ALTER SYSTEM, which would not help."""
    with type(postgres_server)(postgres_server.bin, {"full_page_writes": False}) as other:
        (problem,) = of_settings(look(other.url))
    assert problem.what.startswith("full_page_writes is off: ")
    assert problem.repair is not None
    assert problem.repair.way == "advice"
    assert "-c full_page_writes=on" in problem.repair.text


@pytest.mark.parametrize("table", ["ill_jobs", "ill_history", "ill_logins", "ill_pictures", "ill_leases", "ill_inbox"])
def test_an_unlogged_table_is_found_and_repaired(ill_postgres: Ill, table: str) -> None:
    """Of everything that is declared, each table once."""
    ill_postgres.run(f"ALTER TABLE {table} SET UNLOGGED")
    problem = ill_postgres.problem("durability")
    assert problem.what == f"table {table} is UNLOGGED: a crash of the server empties it (voids A1)"
    assert problem.level == "error"
    ill_postgres.is_cured(problem)


def test_an_unlogged_partition_is_found(ill_postgres: Ill) -> None:
    """The partitioned table itself keeps no rows."""
    ill_postgres.run("DROP TABLE ill_leases")
    ill_postgres.run(
        "CREATE TABLE ill_leases (name text PRIMARY KEY, epoch bigint, holder text, until timestamptz, session text)"
        " PARTITION BY LIST (name)"
    )
    ill_postgres.run("CREATE UNLOGGED TABLE some_leases PARTITION OF ill_leases FOR VALUES IN ('bot')")
    found = [one for one in ill_postgres.diagnose().problems if one.check == "durability"]
    assert [one.what.partition(":")[0] for one in found] == ["table some_leases is UNLOGGED"]


@pytest.fixture(scope="module")
def standby(_server: PlainPostgres) -> Iterator[Standby]:
    with Standby(_server) as server:
        following = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        assert wait_until(lambda: _server.psql(following) == "1")
        yield server


def test_an_asynchronous_standby_is_found_and_repaired(server: PlainPostgres, standby: Standby) -> None:
    """With its name, so that commits wait for it from then on."""
    (problem,) = of_settings(look(server.url))
    assert problem.what.startswith("standbys follow asynchronously: a failover loses")
    assert "(voids A1)" in problem.what
    assert [(row["standby"], row["sync_state"]) for row in problem.evidence] == [("standby", "async")]
    assert problem.repair is not None
    server.paste(problem.repair.text, server.url)
    in_sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
    assert wait_until(lambda: server.psql(in_sync) == "1")
    assert of_settings(look(server.url)) == []
    for value in ("local", "remote_write"):
        server.set("synchronous_commit", value)
        (problem,) = of_settings(look(server.url))
        assert problem.what.startswith(f"synchronous_commit is {value}: a failover loses")
    server.reset("synchronous_commit", "synchronous_standby_names")


def test_whether_standbys_are_asynchronous_may_be_a_secret(server: PlainPostgres, standby: Standby, role: str) -> None:
    """The note names the right that is missing."""
    seen_by = server.url.replace("postgres@", "app@")
    found = look(seen_by)
    assert of_settings(found) == []
    (note,) = could_not_check(found)
    assert note.endswith('GRANT pg_read_all_stats TO "app"')
    server.psql("GRANT pg_read_all_stats TO app")
    (problem,) = of_settings(look(seen_by))
    assert problem.what.startswith("standbys follow asynchronously")


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("pg_receivewal", ("--directory=.",)),
        (
            "pg_recvlogical",
            (
                "--slot=subscriber",
                "--start",
                "--file=-",
                "-o",
                "proto_version=1",
                "-o",
                "publication_names=p",
            ),
        ),
    ],
)
def test_an_archive_and_a_subscriber_are_not_standbys(
    server: PlainPostgres, program: str, options: tuple[str, ...]
) -> None:
    """Neither can become the primary, so nothing is lost because they are behind."""
    server.psql("SELECT pg_create_logical_replication_slot('subscriber', 'pgoutput')")
    try:
        with server.followed_by(program, *options):
            found = of_settings(look(server.url))
        assert [row for one in found for row in one.evidence if row["standby"] == program] == []
    finally:
        dropped = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
        assert wait_until(lambda: server.psql(dropped) == "" and server.psql("TABLE pg_replication_slots") == "")


def test_a_standby_says_that_it_is_one(server: PlainPostgres, standby: Standby) -> None:
    """And where the primary is; its own settings are not what decisions rest on."""
    found = look(standby.url)
    (problem,) = of_settings(found)
    assert (problem.check, problem.level) == ("primary", "error")
    assert problem.what.startswith("this server is a standby: every decision fails with SQLSTATE 25006")
    assert "(voids A1: one primary)" in problem.what
    assert problem.repair is not None
    assert f"Connect to the primary at 127.0.0.1:{server.port}" in problem.repair.text
    assert "target_session_attrs=read-write" in problem.repair.text
    assert len(could_not_check(found)) == 2


# Redis and Valkey


def look_at(url: str) -> Diagnosis:
    with connect(url) as db:
        return diagnose(db)


@pytest.mark.parametrize(
    ("config", "check", "level", "what"),
    [
        ({"appendonly": False}, "durability", "error", "appendonly is no: a restart of the server loses"),
        ({"appendfsync": "no"}, "durability", "warning", "appendfsync is no: a crash of the machine loses"),
        (
            {"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"},
            "eviction",
            "error",
            "maxmemory-policy is allkeys-lru: any row may be evicted when memory is short (voids",
        ),
        (
            {"maxmemory": "100mb", "maxmemory_policy": "volatile-lru"},
            "eviction",
            "error",
            "maxmemory-policy is volatile-lru: rows that have a time to live may be evicted when memory is short (voids",
        ),
        (
            {"maxmemory_policy": "allkeys-random"},
            "eviction",
            "warning",
            "maxmemory-policy is allkeys-random: any row may be evicted when memory is short, once maxmemory is set",
        ),
    ],
    ids=str,
)
def test_a_setting_of_valkey_is_found_and_repaired(config: dict[str, Any], check: str, level: str, what: str) -> None:
    """By the printed lines, also after a restart: CONFIG REWRITE keeps them."""
    with PlainValkey(**config) as server:
        (problem,) = look_at(server.url).problems
        assert (problem.check, problem.level) == (check, level)
        assert problem.what.startswith(what)
        assert "(voids A6" in problem.what
        assert problem.repair is not None
        assert not problem.repair.safe
        with redis.Redis.from_url(server.url) as client:
            for line in problem.repair.text.split("\n"):
                client.execute_command(*line.split(" "))
            while client.info("persistence")["aof_rewrite_in_progress"]:
                """Valkey refuses to stop while it writes its first append-only file."""
        assert look_at(server.url).problems == ()
        server.restart()
        assert look_at(server.url).problems == ()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_an_async_store_and_either_protocol_find_the_same(protocol: int) -> None:
    with PlainValkey(appendonly=False, maxmemory_policy="allkeys-lfu") as server:
        async with connect(f"{server.url}?protocol={protocol}") as db:
            found = await diagnose(db)
    assert [one.check for one in found.problems] == ["durability", "eviction"]


def test_a_replica_of_valkey_says_that_it_is_one(valkey_server: Any) -> None:
    """And where the primary is; its own files are not what decisions rest on."""
    with PlainValkey(replicaof=f"127.0.0.1 {valkey_server.port}") as replica:
        found = look_at(replica.url)
    (problem,) = found.problems
    assert (problem.check, problem.level) == ("primary", "error")
    assert problem.what.startswith(f"this server is a replica of 127.0.0.1:{valkey_server.port}: ")
    assert "(voids A6: one primary)" in problem.what
    assert problem.repair is not None
    assert problem.repair.text.startswith(f"Connect to the primary at 127.0.0.1:{valkey_server.port}")
    assert len(could_not_check(found)) == 1


@pytest.mark.parametrize(
    ("allowed", "refused", "found"),
    [
        ("+info", ["CONFIG GET appendfsync"], []),
        ("+config|get", ["INFO", "INFO", "INFO"], []),
        ("+info +config|get", [], ["durability"]),
    ],
)
def test_what_valkey_refuses_to_tell_could_not_be_checked(allowed: str, refused: list[str], found: list[str]) -> None:
    """The note names the right that is missing; hosted servers forbid CONFIG to all users."""
    with PlainValkey(appendfsync="no") as server:
        with redis.Redis.from_url(server.url) as client:
            rights = ("+@all", "-info", "-config", *allowed.split())
            client.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", *rights)
        seen = look_at(server.url.replace("redis://", "redis://app:secret@"))
    assert [one.check for one in seen.problems] == found
    notes = could_not_check(seen)
    assert [note.partition("refused ")[2].partition(" (")[0] for note in notes] == refused


# SQLite


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        for text in schema("sqlite"):
            connection.executescript(text)
        yield connection


@pytest.mark.parametrize(
    ("pragma", "level", "what"),
    [
        ("synchronous = OFF", "error", "synchronous is OFF: a crash of the machine loses"),
        ("synchronous = NORMAL", "warning", "synchronous is NORMAL: a crash of the machine loses the last"),
        ("journal_mode = OFF", "error", "journal_mode is OFF: nothing can be rolled back"),
        ("journal_mode = MEMORY", "error", "journal_mode is MEMORY: a crash within a commit damages"),
    ],
)
@pytest.mark.parametrize("before", ["journal_mode = DELETE", "journal_mode = WAL"])
def test_a_setting_of_a_sqlite_connection_is_found_and_repaired(
    file: sqlite3.Connection, before: str, pragma: str, level: str, what: str
) -> None:
    """By the printed statement, on the same connection; that others have their own is said."""
    file.execute(f"PRAGMA {before}").fetchall()
    assert diagnose(bind(file), Job).problems == ()
    file.execute(f"PRAGMA {pragma}").fetchall()
    found = diagnose(bind(file), Job)
    (problem,) = found.problems
    assert (problem.check, problem.level) == ("durability", level)
    assert problem.what.startswith(what)
    assert "(voids A1)" in problem.what
    assert problem.repair is not None
    file.executescript(problem.repair.text)
    assert diagnose(bind(file), Job).problems == ()
    assert [one.note for one in found.checked if one.check == "durability"] == [
        "only this connection; every other connection has its own settings"
    ]


def test_an_attached_database_is_looked_at_too(file: sqlite3.Connection, tmp_path: Path) -> None:
    """Its settings are its own."""
    file.execute('ATTACH ? AS "archive of \'24"', (str(tmp_path / "archive.db"),))
    file.execute('PRAGMA "archive of \'24".synchronous = OFF')
    (problem,) = diagnose(bind(file), Job).problems
    assert problem.what.startswith("synchronous of archive of '24 is OFF: ")
    assert problem.repair is not None
    file.executescript(problem.repair.text)
    assert diagnose(bind(file), Job).problems == ()


def test_nothing_is_said_of_a_database_in_memory() -> None:
    """That it does not survive is its purpose."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        found = diagnose(bind(connection))
    assert found.problems == ()
    assert could_not_check(found) == ["could not check: the database is in memory and ends with its connection"]


# every store


def test_a_healthy_store_has_every_setting_checked(ill: Ill) -> None:
    """No warning without a cause, and nothing that could not be asked."""
    found = ill.diagnose()
    assert found.problems == ()
    assert could_not_check(found) == []
    assert {one.check for one in found.checked if not one.skipped} >= {
        "sqlite": {"durability"},
        "postgres": {"durability", "primary"},
        "redis": {"durability", "primary", "eviction"},
    }[ill.dialect]


@pytest.mark.parametrize("ignored", OURS)
def test_a_check_of_settings_can_be_left_out(ill: Ill, ignored: str) -> None:
    assert ignored not in {one.check for one in ill.diagnose(ignore=(ignored,)).checked}
