"""`sql` and `verify` for claims, deliveries, attempts, leases and inboxes."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from raceproof import Delivery, Inbox, Lease, Lifecycle, SendPermit, bind
from raceproof.declare import Spec, spec_of
from raceproof.inbox import Arrival
from raceproof.ops.verify import verify
from raceproof.run import Schedules
from raceproof.testing import PostgresServer
from tests.ddl import script
from tests.ops.cli.conftest import Cli
from tests.ops.cli.fix_working import WORKING, Place, tables
from tests.ops.cli.test_sql import Recording
from tests.ops.cli.working import Job, Line, bot_lease, events, logins, pictures


def run(place: Place, ddl: str) -> None:
    """Statement by statement, as psql does it: an index cannot be made concurrently in a transaction."""
    for statement in ddl.split(";\n"):
        if statement.strip():
            place.raw.execute(statement)


def problems(place: Place, spec: Any) -> list[tuple[str, str]]:
    return [
        (one.what, one.repair)
        for one in verify(place.db, spec)
        if one.level != "ok" and not one.what.startswith("no guards")
    ]


def test_the_ddl_of_everything_installs_twice_and_verify_is_content(cli: Cli, sql_place: Place) -> None:
    """Indexes of claims and attempts, leases and inbox, beside the history."""
    ddl = cli("sql", "--app", WORKING, "--url", sql_place.url).stdout
    for index in ("work_jobs_work", "work_lines_work", "work_lines_work_line", "work_logins_one_open"):
        assert f'"{index}"' in ddl
    assert "work_leases" in ddl
    assert "work_inbox" in ddl
    bare = "\n".join(line for line in ddl.splitlines() if not line.startswith("--")) + "\n"
    run(sql_place, bare)
    run(sql_place, bare)
    for spec in (Job, Line, logins.lifecycle, events.lifecycle, pictures, logins, bot_lease, events):
        assert problems(sql_place, spec) == []
    for thing in (Lease("bot", table="nowhere"), Inbox("nowhere"), Delivery("picture", "nowhere")):
        ((what, _),) = problems(sql_place, thing)
        assert what == "table nowhere does not exist"


def test_one_target_is_printed_alone(cli: Cli) -> None:
    """By its name, or by where it is."""
    for args in (("--app", WORKING, "bot_lease"), ("--app", f"{WORKING}:bot_lease")):
        printed = cli("sql", *args).stdout
        assert printed.startswith("-- bot_lease · lease · postgres")
        assert printed.count("CREATE") == 1
    printed = cli("sql", "--app", WORKING, "Line", "--dialect", "sqlite").stdout
    assert printed.count("CREATE") == 2


def test_the_table_of_schedules_is_printed_for_who_asks(cli: Cli, sql_place: Place) -> None:
    """It needs no module; what is printed is what a Scheduler works on, and a declared one has its own name."""
    ddl = cli("sql", "--schedules", "--url", sql_place.url).stdout
    assert ddl.startswith(f"-- schedules · schedules · {sql_place.db.dialect}\n")
    run(sql_place, "\n".join(line for line in ddl.splitlines() if not line.startswith("--")) + "\n")
    sql_place.db.add_waiting(Schedules().run, ["vetting"])
    assert [one.key for one in sql_place.db.claim(Schedules().run)] == ["vetting"]
    assert "raceproof_schedule" not in cli("sql", "--app", WORKING).stdout
    assert "raceproof_schedule" in cli("sql", "--app", WORKING, "--schedules").stdout
    assert "CREATE" not in cli("sql", "--schedules", "--dialect", "redis").stdout
    assert '"raceproof_schedule"' in cli("sql", "--schedules", "--statements").stdout


def test_declared_schedules_are_printed_by_their_name(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a lease or an inbox is; then the usual table is not wanted."""
    source = "from raceproof.run import Schedules\nhourly = Schedules('shop_schedule')\n"
    (tmp_path / "has_schedules.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for args in ((), ("hourly",), ("--schedules",)):
        printed = cli("sql", "--app", "has_schedules", *args).stdout
        assert printed.startswith("-- hourly · schedules · postgres")
        assert printed.count("CREATE TABLE") == 1
        assert '"shop_schedule"' in printed


def test_the_index_of_a_claim_is_made_without_holding_up_writers() -> None:
    """On PostgreSQL; a serial claim wants a second one for the rows before."""
    assert script(Job.work, dialect="postgres", only="indexes", concurrently=True) == (
        'CREATE INDEX CONCURRENTLY IF NOT EXISTS "work_jobs_work" ON "work_jobs" ("made_at")\n'
        "WHERE \"status\" IN ('QUEUED', 'RUNNING');"
    )
    assert script(Line.work, dialect="sqlite", only="indexes") == (
        'CREATE INDEX IF NOT EXISTS "work_lines_work" ON "work_lines" ("made_at")\n'
        "WHERE \"status\" IN ('QUEUED', 'RUNNING');\n"
        'CREATE INDEX IF NOT EXISTS "work_lines_work_line" ON "work_lines" ("device", "made_at", "id")\n'
        "WHERE \"status\" IN ('QUEUED', 'RUNNING');"
    )


def test_an_index_is_where_its_table_is_and_long_names_stay_apart() -> None:
    """SQLite names the schema with the index, PostgreSQL cuts names at 63 bytes."""
    data = {**spec_of(Line).to_dict(), "table": "other." + "t" * 70}
    spec = Lifecycle.from_dict(data)
    made = script(spec.claims["work"], dialect="postgres", only="indexes").splitlines()
    names = {line.split('"')[1] for line in made if line.startswith("CREATE")}
    assert len(names) == 2
    assert max(map(len, names)) <= 63
    assert 'IF NOT EXISTS "other"."t' in script(spec.claims["work"], dialect="sqlite", only="indexes")
    assert 'ON "work_logins" ("owner")' in script(logins, dialect="sqlite", only="indexes")


def test_the_databases_use_the_index(sql_place: Place, cli: Cli) -> None:
    """The plan of the printed search goes by it."""
    run(sql_place, script(Line.work, dialect=sql_place.db.dialect, only="indexes") + "\n")
    if sql_place.db.dialect == "sqlite":
        printed = cli("sql", "--app", WORKING, "Line", "--statements", "--dialect", "sqlite").stdout
        _, search = printed.partition("-- Line.work claim.due\n")[2].partition(";")[0].split("\n", 1)
        plan = sql_place.raw.execute(f"EXPLAIN QUERY PLAN {search}", (1,) * search.count("?")).fetchall()
        assert "work_lines_work" in str(plan)
        assert "work_lines_work_line" in str(plan)
        return
    sql_place.raw.execute(
        "INSERT INTO work_lines (id, status, made_at, device) "
        "SELECT n::text, CASE WHEN n > 9990 THEN 'QUEUED' ELSE 'DONE' END, n, n::text FROM generate_series(1, 10000) n"
    )
    sql_place.raw.execute("ANALYZE work_lines")
    printed = cli("sql", "--app", WORKING, "Line", "--statements").stdout
    search = printed.partition("-- Line.work claim.acquire\n")[2].partition(";")[0]
    sql_place.raw.execute(f"PREPARE search AS {search}")
    plan = sql_place.raw.execute("EXPLAIN EXECUTE search (60, 1, 'by')").fetchall()
    assert "work_lines_work" in str(plan)
    assert "Seq Scan" not in str(plan)


def test_the_statements_are_those_that_sqlite_runs(cli: Cli, sqlite_place: Place) -> None:
    """Every statement of real calls stands word for word in the output."""
    printed = cli("sql", "--app", WORKING, "--statements", "--dialect", "sqlite").stdout
    sqlite_place.job("a")
    sqlite_place.job("b", 1, attempts=3)
    sqlite_place.line("l", "d")
    sqlite_place.put("work_pictures", id="p", state="ready")
    Recording.sent.clear()
    path = sqlite_place.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None, factory=Recording)) as connection:
        store = bind(connection)
        (mine,) = store.claim(Job.work, 2, by="a")
        (mine,) = store.renew(mine)  # type: ignore[assignment]
        store.fail(mine, reason="no")
        store.release(mine)
        store.claim_one(Job.work, "a", now=None)
        store.claims(Job.work)
        store.claim(Line.work)
        permit = store.begin_delivery(pictures, "p")
        assert isinstance(permit, SendPermit)
        store.uncertain(permit, "x")
        store.begin_delivery(pictures, "p")
        store.resolve(pictures, "p", arrived=False)
        store.deliveries(pictures)
        store.start_attempt(logins, "ann", "l1")
        store.lease_holder(bot_lease)
        leading: Any = store.acquire_lease(bot_lease, "a")
        store.renew_lease(leading)
        store.release_lease(leading)
        store.receive(events, Arrival("t", "1", b"{}"))
        store.claim(events.work)
        store.forget_events(events)
        store.inbox_counts(events)
    sent = {text for text in Recording.sent if text not in ("BEGIN IMMEDIATE", "COMMIT")}
    assert {text for text in sent if f"{text};" not in printed} == set()
    assert len(sent) > 25


def test_the_statements_for_postgresql_can_be_prepared(cli: Cli, postgres_server: PostgresServer) -> None:
    """PostgreSQL accepts each of them as a prepared statement."""
    printed = cli("sql", "--app", WORKING, "--statements").stdout
    prepared = 0
    with psycopg.connect(postgres_server.database(), autocommit=True) as connection:
        connection.execute(tables("postgres").encode())
        for part in printed.split("\n\n"):
            body = "\n".join(line for line in part.splitlines() if not line.startswith("--")).strip()
            if body.startswith(("WITH", "UPDATE", "SELECT", "INSERT", "DELETE")):
                connection.execute(f"PREPARE s{prepared} AS {body}".encode())
                prepared += 1
    assert prepared > 40


def test_the_finished_redis_scripts_are_printed(cli: Cli) -> None:
    """With the keys and arguments of every call; a plain command stands in a comment."""
    printed = cli("sql", "--app", WORKING, "--statements", "--dialect", "redis").stdout
    assert "-- if:" not in printed
    assert "redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence," in printed
    for call in (
        "Job.work claim.acquire",
        "Job.work claim.give_back",
        "Line.work claim.offer",
        "picture delivery.take",
        "Logging.attempt attempt.start",
        "lease bot lease.renew",
        "inbox work_inbox inbox.receive",
    ):
        assert f"-- {call}\n" in printed
    assert "-- GET work_logins/active:<owner>" in printed


def changed(claim: dict[str, Any], **changes: Any) -> Spec[str]:
    data = {**spec_of(Line).to_dict(), **changes}
    data["claims"]["work"] |= claim
    return Lifecycle.from_dict(data)


def test_missing_columns_of_a_claim_are_found(sql_place: Place) -> None:
    """Those of its form, and the ones that it counts, rests, orders and lines up by."""
    form = {"kind_of_form": "columns", "holder": "h", "until": "u", "fence": "f"}
    spec = changed({"form": form, "attempts": "n", "not_before": "r", "ordering_key": "s", "order_by": ["o"]})
    what, repair = problems(sql_place, spec)[0]
    assert what == "table work_lines lacks f, h, n, o, r, s, u"
    assert 'ADD COLUMN "u"' in repair


def test_a_claim_without_an_index_is_a_warning_with_the_ddl_that_repairs_it(sql_place: Place) -> None:
    """One for the search and one for the line; running them is enough."""
    found = problems(sql_place, Line)
    assert [what.partition(":")[0] for what, _ in found] == ["no index serves the claim Line.work"] * 2
    for _, repair in found:
        sql_place.raw.execute(repair)
    assert problems(sql_place, Line) == []


@pytest.mark.parametrize(
    ("index", "serves"),
    [
        ("(made_at) WHERE status IN ('QUEUED', 'RUNNING')", True),
        ("(made_at DESC) WHERE status IN ('QUEUED', 'RUNNING')", True),
        ("(status, made_at)", True),
        ("(made_at)", False),
        ("(made_at) WHERE status IN ('QUEUED')", False),
        ("(made_at) WHERE status IN ('QUEUED', 'RUNNING') AND made_at > 3", False),
        ("(made_at) WHERE device IS NULL", False),
        ("(lower(status))", False),
        ("(id, made_at) WHERE status IN ('QUEUED', 'RUNNING')", False),
    ],
)
def test_only_an_index_that_leads_to_the_open_rows_counts(sql_place: Place, index: str, serves: bool) -> None:
    """One that has the ended rows too, or not all open ones, is no help."""
    sql_place.raw.execute(f"CREATE INDEX other ON work_jobs {index.replace('device', 'claimed_by')}")
    assert (problems(sql_place, Job) == []) == serves


def test_the_types_of_claim_columns_are_looked_at_on_postgresql(postgres_place: Place) -> None:
    """A fence is a number, and a lease has a time zone."""
    postgres_place.raw.execute("ALTER TABLE work_jobs ALTER fence TYPE text")
    postgres_place.raw.execute("ALTER TABLE work_jobs ALTER claimed_until TYPE timestamp")
    whats = [what for what, _ in problems(postgres_place, Job)]
    assert "fence must be an integer" in whats
    assert any(what.startswith("claimed_until has no time zone") for what in whats)
