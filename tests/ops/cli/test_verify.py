"""`verify`: findings with evidence and repair, the matrix, and exit code 6."""

import json
import sqlite3
from contextlib import closing

import psycopg
import pytest

from raceproof import Lifecycle
from raceproof.declare import spec_of
from tests.ddl import script
from tests.ops.cli.conftest import APP, Cli
from tests.ops.cli.declared import Job
from tests.ops.cli.fix_working import Place
from tests.ops.cli.working import logins


def execute(url: str, text: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.executescript(text)


def test_drift_ends_with_6_and_tells_the_repair(cli: Cli, sqlite_url: str) -> None:
    """A missing column is an error with the statement that adds it; other lifecycles are told too."""
    execute(sqlite_url, "ALTER TABLE commands DROP COLUMN note")
    result = cli("verify", "--app", APP, "--url", sqlite_url)
    assert result.exit_code == 6
    assert "✗ table commands lacks note" in result.stdout
    assert 'repair:   ALTER TABLE "commands" ADD COLUMN "note"' in result.stdout
    assert "Job (jobs.status)" in result.stdout


def test_one_lifecycle_can_be_verified_alone(cli: Cli, sqlite_url: str) -> None:
    """What is wrong with others does not count then."""
    execute(sqlite_url, "DROP TABLE commands")
    assert cli("verify", "--app", APP, "--url", sqlite_url, "Job").exit_code == 0
    assert cli("verify", "--app", APP, "--url", sqlite_url, "Command").exit_code == 6


def test_a_warning_is_a_problem_only_with_strict(cli: Cli, sqlite_url: str) -> None:
    """Missing guards are a warning."""
    assert cli("verify", "--app", APP, "--url", sqlite_url).exit_code == 0
    assert cli("verify", "--app", APP, "--url", sqlite_url, "--strict").exit_code == 6


def test_guards_can_be_required(cli: Cli, sqlite_url: str) -> None:
    """In CI, say; what is missing ends with 6 and is told with its repair."""
    result = cli("verify", "--app", APP, "--url", sqlite_url, "Job", "--guards")
    assert (result.exit_code, "✗ no guards" in result.stdout) == (6, True)
    assert "raceproof sql --guards --dialect sqlite" in result.stdout
    execute(sqlite_url, script(spec_of(Job), dialect="sqlite", only="guards"))
    assert cli("verify", "--app", APP, "--url", sqlite_url, "Job", "--guards").exit_code == 0


def test_guards_of_one_lifecycle_make_those_of_the_others_required(cli: Cli, sqlite_url: str) -> None:
    """Unless the caller says that none are wanted."""
    execute(sqlite_url, script(spec_of(Job), dialect="sqlite", only="guards"))
    assert cli("verify", "--app", APP, "--url", sqlite_url, "Ticket").exit_code == 6
    assert cli("verify", "--app", APP, "--url", sqlite_url, "Ticket", "--no-guards", "--strict").exit_code == 0


def test_a_table_that_a_migration_made_again_lacks_its_guards(cli: Cli, sqlite_url: str) -> None:
    """As Django does it on SQLite for a changed field: a copy, a DROP that takes the triggers along, and a new name."""
    execute(sqlite_url, script(spec_of(Job), dialect="sqlite", only="guards"))
    execute(
        sqlite_url,
        "CREATE TABLE new__jobs (id integer PRIMARY KEY, status text NOT NULL, attempts integer NOT NULL);"
        "INSERT INTO new__jobs SELECT * FROM jobs; DROP TABLE jobs; ALTER TABLE new__jobs RENAME TO jobs",
    )
    result = cli("verify", "--app", APP, "--url", sqlite_url, "Job")
    assert (result.exit_code, "drops its triggers" in result.stdout) == (6, True)


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_the_matrix_finds_guards_that_decide_wrongly(cli: Cli, sqlite_url: str, output: str) -> None:
    """Guards that were edited by hand accept what is not declared; the trial says which change it is."""
    execute(sqlite_url, script(spec_of(Job), dialect="sqlite", only="guards").replace("'ENDED'", "'NEW'"))
    result = cli("verify", "--app", APP, "--url", sqlite_url, "Job", "--matrix", "-o", output)
    assert result.exit_code == 6
    if output == "json":
        (report,) = json.loads(result.stdout)
        trials = report["matrix"]
    else:
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        trials = [line for line in lines if line["what"] == "matrix"]
        assert {line["level"] for line in trials} == {"ok", "error"}
    wrong = {(one["before"], one["after"]) for one in trials if one["declared"] != one["accepted"]}
    assert wrong == {("RUNNING", "ENDED"), ("RUNNING", "NEW")}


def test_the_matrix_is_told_in_words(cli: Cli, sqlite_url: str) -> None:
    """A table for people counts the trials and names the wrong ones."""
    execute(sqlite_url, script(spec_of(Job), dialect="sqlite", only="guards").replace("'ENDED'", "'NEW'"))
    result = cli("verify", "--app", APP, "--url", sqlite_url, "Job", "--matrix")
    assert "9 changes of status tried: 3 declared, 2 decided wrongly" in result.stdout
    assert "RUNNING → NEW is not declared, but was accepted" in result.stdout
    assert "RUNNING → ENDED is declared, but was refused" in result.stdout


def test_a_matrix_without_guards_is_a_problem(cli: Cli, sqlite_url: str) -> None:
    """There is nothing to try, and the finding says how to get it."""
    result = cli("verify", "--app", APP, "--url", sqlite_url, "Job", "--matrix")
    assert (result.exit_code, "raceproof sql --guards" in result.stdout) == (6, True)


def test_guards_of_another_declaration_are_found(cli: Cli, postgres_url: str) -> None:
    """On PostgreSQL too, a changed declaration does not fit the installed guards any more."""
    older = {**spec_of(Job).to_dict(), "statuses": ["NEW", "RUNNING", "ENDED", "LOST"]}
    older["moves"]["lose"] = {"from": ["RUNNING"], "to": "LOST"}
    older["terminal"] = ["ENDED", "LOST"]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(script(Lifecycle.from_dict(older), dialect="postgres", only="guards").encode())
    result = cli("verify", "--app", APP, "--url", postgres_url, "Job")
    assert (result.exit_code, "the guards belong to another declaration" in result.stdout) == (6, True)


DRIFTS = {
    "bot_lease": ("DROP TABLE work_leases", "table work_leases does not exist"),
    "events": ("DROP TABLE work_inbox", "table work_inbox does not exist"),
    "pictures": ("DROP TABLE work_pictures", "table work_pictures does not exist"),
    "pictures column": ("ALTER TABLE work_pictures DROP COLUMN tries", "table work_pictures lacks tries"),
    "events column": ("ALTER TABLE work_inbox DROP COLUMN headers", "table work_inbox lacks headers"),
    "bot_lease column": ("ALTER TABLE work_leases DROP COLUMN epoch", "table work_leases lacks epoch"),
    "logins column": ("ALTER TABLE work_logins DROP COLUMN began_at", "table work_logins lacks began_at"),
    "logins": ("DROP TABLE work_logins", "table work_logins does not exist"),
}


@pytest.mark.parametrize("planted", DRIFTS)
def test_what_is_declared_beside_lifecycles_is_verified_too(cli: Cli, sql_place: Place, planted: str) -> None:
    """Deliveries, attempts, leases and inboxes: by name, or all of them."""
    name = planted.split()[0]
    assert cli("verify", *sql_place.target, name).exit_code == 0
    change, what = DRIFTS[planted]
    sql_place.raw.execute(change)
    for names in ((), (name,)):
        result = cli("verify", *sql_place.target, *names)
        assert result.exit_code == 6
        assert f"✗ {what}" in result.stdout


def test_a_missing_index_of_attempts_is_a_warning(cli: Cli, sql_place: Place) -> None:
    """With the statement that makes it; an owner could have two open ones by raw SQL."""
    result = cli("verify", *sql_place.target, "logins", "-o", "jsonl")
    (found,) = [line for line in map(json.loads, result.stdout.splitlines()) if line["level"] == "warning"]
    assert found["attempts"] == "logins"
    assert found["what"].startswith("no unique index on owner")
    assert found["repair"] == script(logins, dialect=sql_place.db.dialect, only="indexes")
    sql_place.raw.execute(found["repair"])
    assert cli("verify", *sql_place.target, "logins", "--strict").exit_code == 0


def test_an_inbox_is_verified_with_its_lifecycle(cli: Cli, sql_place: Place) -> None:
    """Its index is missed, its guards are not: nobody else writes a table of ours."""
    sql_place.raw.execute("DROP INDEX work_inbox_work")
    result = cli("verify", *sql_place.target, "events")
    assert "! no index serves the claim Inbox.work" in result.stdout
    assert "guards" not in result.stdout
    assert result.stdout.count("has all declared columns") == 1


def test_moments_that_depend_on_the_session_are_found(cli: Cli, postgres_place: Place) -> None:
    """Those of a delivery and of an attempt: a session of another zone would take over at once."""
    execute = postgres_place.raw.execute
    execute("ALTER TABLE work_pictures ALTER delivering_at TYPE timestamp, ALTER delivered_at TYPE timestamp")
    execute("ALTER TABLE work_logins ALTER began_at TYPE timestamp")
    result = cli("verify", *postgres_place.target, "logins", "pictures", "-o", "jsonl")
    lines = [line for line in map(json.loads, result.stdout.splitlines()) if "time zone" in line["what"]]
    assert [line["what"].split()[0] for line in lines] == ["began_at", "delivered_at", "delivering_at"]
    for line in lines:
        execute(line["repair"])
    assert "time zone" not in cli("verify", *postgres_place.target, "logins", "pictures").stdout


def test_the_fence_of_a_delivery_is_not_rounded(cli: Cli, postgres_place: Place) -> None:
    """When it was delivered may be; that is not compared."""
    alter = "ALTER TABLE work_pictures ALTER delivering_at TYPE timestamptz(0), ALTER delivered_at TYPE timestamptz(0)"
    postgres_place.raw.execute(alter)
    result = cli("verify", *postgres_place.target, "pictures")
    assert result.exit_code == 6
    assert "✗ delivering_at is a fence and is rounded" in result.stdout
    assert "delivered_at" not in result.stdout


def test_a_hash_has_nothing_that_could_drift(cli: Cli, valkey_place: Place) -> None:
    """Whatever is declared."""
    result = cli("verify", *valkey_place.target)
    assert (result.exit_code, "✗" in result.stdout, "!" in result.stdout) == (0, False, False)
