"""L16: a schema that has drifted, guards that are missing or switched off, and missing indexes."""

import psycopg
import pytest

from raceproof import bind
from raceproof.connect.url import connect
from raceproof.declare import spec_of
from raceproof.ops.doctor import diagnose, fix
from tests.ddl import script
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.declared import Job, Login, bot, letters, logins, pictures

DRIFTS = {
    "a lease's table": ("DROP TABLE ill_leases", "table ill_leases does not exist"),
    "an inbox's table": ("DROP TABLE ill_inbox", "table ill_inbox does not exist"),
    "a delivery's table": ("DROP TABLE ill_pictures", "table ill_pictures does not exist"),
    "a delivery's column": ("ALTER TABLE ill_pictures DROP COLUMN sender", "table ill_pictures lacks sender"),
    "an inbox's column": ("ALTER TABLE ill_inbox DROP COLUMN headers", "table ill_inbox lacks headers"),
    "a lease's column": ("ALTER TABLE ill_leases DROP COLUMN session", "table ill_leases lacks session"),
    "a stamp": ("ALTER TABLE ill_jobs DROP COLUMN done_at", "table ill_jobs lacks done_at"),
    "a claim's columns": ("ALTER TABLE ill_jobs DROP COLUMN fence", "table ill_jobs lacks fence"),
    "an attempt's column": ("ALTER TABLE ill_logins DROP COLUMN began_at", "table ill_logins lacks began_at"),
}
INDEXES = {
    "of a claim": ("DROP INDEX ill_jobs_work", "no index serves the claim Job.work"),
    "of attempts": ("DROP INDEX ill_logins_one_open", "no unique index on owner"),
    "of the history": ("DROP INDEX ill_history_by_key", "no index serves the history ill_history"),
    "of an inbox": ("DROP INDEX ill_inbox_work", "no index serves the claim Inbox.work"),
}


@pytest.mark.parametrize("planted", DRIFTS)
def test_what_a_table_lacks_is_found_and_added(ill_sql: Ill, planted: str) -> None:
    """Rows of such a table are not looked at until it is mended."""
    change, what = DRIFTS[planted]
    ill_sql.run(change)
    found = ill_sql.problem("schema")
    assert found.what == what
    assert any(one.skipped and "repaired first" in one.note for one in ill_sql.diagnose().checked) or (
        "lease" in planted
    )
    ill_sql.is_cured(found)


@pytest.mark.parametrize("planted", INDEXES)
def test_a_missing_index_is_found_and_made(ill_sql: Ill, planted: str) -> None:
    """It is safe to make one; on PostgreSQL nobody is held up by it."""
    change, what = INDEXES[planted]
    ill_sql.run(change)
    found = ill_sql.problem("index")
    assert found.what.startswith(what)
    assert found.repair is not None
    assert found.repair.safe
    ill_sql.is_cured(found)


def test_a_missing_history_is_found_and_made(ill_sql: Ill) -> None:
    """Both lifecycles miss it; it is told once."""
    ill_sql.run("DROP TABLE ill_history")
    found = ill_sql.problem("schema")
    assert found.what == "the history ill_history does not exist: every move fails"
    ill_sql.is_cured(found)


def test_missing_guards_are_found_and_installed(ill_sql: Ill) -> None:
    """Not by --fix: a guard refuses what was possible before."""
    if ill_sql.dialect == "postgres":
        ill_sql.run("DROP TRIGGER raceproof_guard_job ON ill_jobs")
    else:
        for kind in ("update", "insert", "record_update", "record_insert"):
            ill_sql.run(f"DROP TRIGGER raceproof_guard_job_{kind}")
    found = ill_sql.problem("guard")
    assert found.repair is not None
    assert not found.repair.safe
    ill_sql.is_cured(found)


def test_guards_of_another_declaration_are_found_and_renewed(ill_sql: Ill) -> None:
    """As after a deploy that forgot them."""
    older = script(spec_of(Job), dialect=ill_sql.dialect, only="guards").replace("'DEAD'", "'BURIED'")
    ill_sql.raw.execute(older.encode()) if ill_sql.dialect == "postgres" else ill_sql.raw.executescript(older)
    found = ill_sql.problem("guard")
    assert found.what == "the guards belong to another declaration"
    ill_sql.is_cured(found)


def test_guards_that_are_switched_off_are_found_and_switched_on(ill_postgres: Ill) -> None:
    """As after a migration that forgot it."""
    ill_postgres.run("ALTER TABLE ill_jobs DISABLE TRIGGER USER")
    found = ill_postgres.problem("guard")
    assert found.level == "error"
    assert found.evidence == ({"found": "tgenabled = D"},)
    ill_postgres.is_cured(found)


def test_an_enum_that_lacks_a_status_is_found_and_gets_it(ill_postgres: Ill) -> None:
    """Whatever its type is called."""
    ill_postgres.run("CREATE TYPE \"odd name\" AS ENUM ('pending', 'done', 'expired')")
    ill_postgres.run("DROP INDEX ill_logins_one_open")
    ill_postgres.run('ALTER TABLE ill_logins ALTER COLUMN status TYPE "odd name" USING status::"odd name"')
    ill_postgres.run("CREATE UNIQUE INDEX ill_logins_one_open ON ill_logins (owner) WHERE status IN ('pending')")
    found = ill_postgres.problem("schema")
    assert found.what == "the enum of status lacks superseded"
    ill_postgres.is_cured(found)


def test_a_key_that_is_not_unique_is_found(ill_postgres: Ill) -> None:
    """And timestamps without a zone, and fences that are texts; each with its repair."""
    ill_postgres.run("ALTER TABLE ill_jobs DROP CONSTRAINT ill_jobs_pkey")
    ill_postgres.run("ALTER TABLE ill_jobs ALTER COLUMN claimed_until TYPE timestamp")
    ill_postgres.run("ALTER TABLE ill_jobs ALTER COLUMN fence TYPE text")
    found = ill_postgres.diagnose().problems
    assert {one.what.partition(":")[0] for one in found} == {
        "the key is not unique",
        "claimed_until has no time zone",
        "fence must be an integer",
    }
    for problem in found:
        ill_postgres.paste(problem)
    assert ill_postgres.diagnose().healthy


def test_moments_that_depend_on_the_session_are_found(ill_postgres: Ill) -> None:
    """Of a delivery and of attempts too, and a fence that is rounded; each with its repair."""
    change = "ALTER TABLE ill_pictures ALTER delivering_at TYPE timestamp(0), ALTER delivered_at TYPE timestamp"
    ill_postgres.run(change)
    ill_postgres.run("ALTER TABLE ill_logins ALTER began_at TYPE timestamp")
    found = ill_postgres.diagnose().problems
    assert {(one.check, one.level, one.target, one.what.partition(":")[0]) for one in found} == {
        ("schema", "warning", "pictures", "delivering_at has no time zone"),
        ("schema", "warning", "pictures", "delivered_at has no time zone"),
        ("schema", "warning", "logins", "began_at has no time zone"),
        ("schema", "error", "pictures", "delivering_at is a fence and is rounded"),
    }
    for problem in found:
        ill_postgres.paste(problem)
    assert ill_postgres.diagnose().healthy


async def test_an_async_store_is_diagnosed_and_fixed_alike(ill: Ill) -> None:
    """The same problems, and the safe repairs done by the library itself; what is not safe is left."""
    things = (Job, Login, logins, pictures, bot, letters)
    if ill.dialect == "redis":
        ill.put("ill_jobs", id="ended", status="DONE")
    else:
        ill.run("DROP INDEX ill_jobs_work")
        ill.run("DROP TABLE ill_leases")
        ill.run("ALTER TABLE ill_pictures DROP COLUMN sender")
    ill.put("ill_jobs", id="tired", status="QUEUED", made_at=1, attempts=3)
    ill.db.offer(Job.work, ["tired"])
    known = diagnose(ill.db, *things).problems
    async with connect(ill.url) as db:
        found = await diagnose(db, *things)
        assert [one.what for one in found.problems] == [one.what for one in known]
        done = await fix(db, found.problems)
        left = (await diagnose(db, *things)).problems
    assert {one.check for one in done} == (
        {"ttl", "stuck.claim"} if ill.dialect == "redis" else {"index", "schema", "stuck.claim"}
    )
    assert [one.what for one in left] == ([] if ill.dialect == "redis" else ["table ill_pictures lacks sender"])


def test_a_transaction_of_the_callers_stays_the_callers(ill_postgres: Ill) -> None:
    """No timeout is left in it, and nothing is committed."""
    with psycopg.connect(ill_postgres.url) as connection:
        connection.execute("CREATE TABLE mine (id int)")
        before = connection.execute("SHOW statement_timeout").fetchone()
        assert diagnose(bind(connection), Job, logins).healthy
        assert connection.execute("SHOW statement_timeout").fetchone() == before
        connection.rollback()
        assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)


def test_a_query_that_takes_too_long_is_given_up(ill_postgres: Ill) -> None:
    """The check is told as left out, and the others are made."""
    ill_postgres.run("BEGIN")
    ill_postgres.run("LOCK TABLE ill_logins IN ACCESS EXCLUSIVE MODE")
    found = ill_postgres.diagnose(seconds=0.2)
    ill_postgres.run("ROLLBACK")
    assert {one.target for one in found.checked if "no answer" in one.note} == {"Login", "logins"}
    assert found.problems == ()
