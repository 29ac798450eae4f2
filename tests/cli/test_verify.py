"""`verify`: findings with evidence and repair, the matrix, and exit code 6."""

import json
import sqlite3
from contextlib import closing

import psycopg
import pytest

from raceproof import Lifecycle, spec_of
from raceproof.guard import guard_ddl
from tests.cli.conftest import APP, Cli
from tests.cli.declared import Job


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


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_the_matrix_finds_guards_that_decide_wrongly(cli: Cli, sqlite_url: str, output: str) -> None:
    """Guards that were edited by hand accept what is not declared; the trial says which change it is."""
    execute(sqlite_url, guard_ddl(spec_of(Job), "sqlite").replace("'ENDED'", "'NEW'"))
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
    execute(sqlite_url, guard_ddl(spec_of(Job), "sqlite").replace("'ENDED'", "'NEW'"))
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
        connection.execute(guard_ddl(Lifecycle.from_dict(older), "postgres").encode())
    result = cli("verify", "--app", APP, "--url", postgres_url, "Job")
    assert (result.exit_code, "the guards are of another declaration" in result.stdout) == (6, True)
