"""L16: rows that should not be: at a status that nobody declared, a second open attempt, without an end on Redis."""

from typing import Any

import pytest

from raceproof.declare import spec_of
from tests.ddl import script
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.declared import Job, Login, Parcel, logins


def without_guards(ill: Ill, one: Any) -> None:
    """As somebody who may drop triggers."""
    if ill.dialect != "redis":
        text = script(spec_of(one), dialect=ill.dialect, drop_guards=True)
        ill.raw.execute(text.encode()) if ill.dialect == "postgres" else ill.raw.executescript(text)


def plant(ill: Ill, one: Any, **columns: Any) -> None:
    """A row that the guards would not have let in."""
    if ill.dialect == "postgres":
        ill.run("SET session_replication_role = replica")
    else:
        without_guards(ill, one)
    ill.put(spec_of(one).table, **columns)
    if ill.dialect == "postgres":
        ill.run("SET session_replication_role = origin")


def ignoring_guards(ill: Ill) -> dict[str, Any]:
    return {"ignore": ("guard",)} if ill.dialect == "sqlite" else {}


@pytest.mark.parametrize("status", ["WEIRD", 'it\'s "odd"\n; --', "queued"])
def test_an_undeclared_status_is_found_and_mended(ill: Ill, status: str) -> None:
    """With guards in place on PostgreSQL: the repair tells them why, and the history keeps it."""
    plant(ill, Job, id="a b", status=status, made_at=1)
    found = ill.problem("status", **ignoring_guards(ill))
    (row,) = found.evidence
    assert row["status"] == status
    assert "a b" in row.values()
    ill.paste(found)
    left = {one.check for one in ill.diagnose(**ignoring_guards(ill)).problems}
    assert left <= {"index"}  # of Redis: it waits, and nobody has offered it
    assert (ill.db.read(Job, "a b") or {})["status"] == "QUEUED"
    if ill.dialect == "postgres":
        assert ill.db.history(Job, "a b")[0].reason == "doctor: undeclared status"


def test_guards_of_sqlite_are_told_of_each_row(ill_sqlite: Ill) -> None:
    """An excuse is good for one row there, so each has its own."""
    for key in ("a", "b", "c"):
        plant(ill_sqlite, Job, id=key, status="WEIRD", made_at=1)
    (guard,) = [one for one in ill_sqlite.diagnose().problems if one.check == "guard"]
    ill_sqlite.paste(guard)
    found = ill_sqlite.problem("status")
    ill_sqlite.is_cured(found)
    assert [ill_sqlite.db.history(Job, key)[0].move for key in "abc"] == ["override"] * 3


def test_guards_without_a_history_are_away_while_it_is_mended(ill_sql: Ill) -> None:
    """They keep no override, so there is none; afterwards they are back."""
    plant(ill_sql, Parcel, shop="x", number=1, status="WEIRD")
    for problem in ill_sql.diagnose().problems:
        if problem.check == "guard":
            ill_sql.paste(problem)
    ill_sql.is_cured(ill_sql.problem("status"))
    with pytest.raises(Exception, match="arcel"):
        ill_sql.put("ill_parcels", shop="x", number=2, status="DONE")


def test_an_owner_with_two_active_attempts_is_found_and_the_newest_stays(ill: Ill) -> None:
    """The others are superseded by an ordinary move; then the index can be made."""
    if ill.dialect != "redis":
        ill.run("DROP INDEX ill_logins_one_open")
    ill.db.start_attempt(logins, "ann", "a-1")
    began = (ill.db.read(Login, "a-1") or {})["began_at"]
    for key in ("a-2", "a-3"):
        ill.put("ill_logins", id=key, status="pending", owner="ann", began_at=began)
    ill.db.start_attempt(logins, "bob", "b-1")
    found = [one for one in ill.diagnose(ignore=("ttl",)).problems if one.check == "owner"]
    assert len(found) == 1
    assert [row["id"] for row in found[0].evidence] == ["a-1", "a-2", "a-3"]
    ill.paste(found[0])
    left = ill.diagnose(ignore=("ttl",)).problems
    stays = "a-1" if ill.dialect == "redis" else "a-3"  # on Redis the pointer says which one is active
    statuses = {key: (ill.db.read(Login, key) or {}) for key in ("a-1", "a-2", "a-3")}
    assert [key for key, row in statuses.items() if row["status"] == "pending"] == [stays]
    assert {row.get("superseded_by") for row in statuses.values()} == {stays, None}
    if ill.dialect == "redis":
        assert left == ()
        return
    assert [one.check for one in left] == ["index"]
    ill.is_cured(left[0])


def test_a_key_of_redis_without_an_end_is_found_and_gets_one(ill_valkey: Ill) -> None:
    """Ended rows, open attempts, the pointer and the set of an owner: each once, and those with an end stay as they are."""
    ill = ill_valkey
    ill.put("ill_jobs", id="ended", status="DONE")
    ill.db.start_attempt(logins, "ann", "a-1")
    for key in ("ill_logins:a-1", "ill_logins/active:ann", "ill_logins/owned:ann"):
        assert ill.raw.persist(key)
    found = ill.diagnose().problems
    assert [one.check for one in found] == ["ttl", "ttl"]
    assert {row["key"] for one in found for row in one.evidence} == {
        "ended",
        "ill_logins:a-1",
        "ill_logins/active:ann",
        "ill_logins/owned:ann",
    }
    assert all(one.repair and one.repair.safe for one in found)
    ill.paste(found[0])
    ill.is_cured(found[1])
    assert 0 < ill.raw.pttl("ill_jobs:ended") <= 60_000


def test_a_row_of_redis_that_no_claim_would_find_is_offered(ill_valkey: Ill) -> None:
    """It waits, and stands in no index."""
    ill_valkey.put("ill_jobs", id="lost", status="QUEUED", made_at=1)
    found = ill_valkey.problem("index")
    assert found.evidence == ({"key": "lost"},)
    ill_valkey.is_cured(found)
    assert len(ill_valkey.db.claim(Job.work, 1)) == 1


def test_a_big_table_is_looked_at_from_both_ends(ill: Ill) -> None:
    """What is in the middle of more rows than are looked at is not promised to be found, and that is said."""
    for key in ("a", "m", "z"):
        plant(ill, Parcel, shop=key, number=1, status="WEIRD" if key == "z" else "DONE")
    found = ill.diagnose(rows=1, **ignoring_guards(ill))
    if ill.dialect == "redis":
        assert found.problems
        return
    assert [one.check for one in found.problems] == ["status"]
    notes = {one.note for one in found.checked if one.check == "status"}
    assert notes == {"only the first and the last 1 rows by key", ""}
