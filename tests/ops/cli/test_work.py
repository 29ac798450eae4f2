"""`claims`, `delivery`, `attempts`, `leader` and `inbox` on real stores: what they tell, and what they change."""

import json
from pathlib import Path
from typing import Any

import pytest

from raceproof import Claim, Lost, SendPermit
from raceproof.declare import Claimable
from raceproof.inbox import Arrival
from tests.ops.cli.conftest import Cli
from tests.ops.cli.fix_working import LONG_AGO, WORKING, Place
from tests.ops.cli.working import Dated, Job, Marked, bot_lease, events, logins, pictures


def rows(cli: Cli, *args: str, code: int = 0) -> list[dict[str, Any]]:
    result = cli(*args, "-o", "json")
    assert result.exit_code == code, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_claims_tell_who_holds_what_and_mark_the_stale(cli: Cli, place: Place) -> None:
    """A lease that is over is marked; the oldest comes first."""
    place.job("a", 1)
    place.job("b", 2)
    place.db.claim_one(Job.work, "a", by="ann", now=LONG_AGO)
    place.db.claim_one(Job.work, "b", by="bob")
    found = rows(cli, "claims", *place.target, "Job.work")
    assert [(row["key"], row["holder"], row["stale"], row["attempts"]) for row in found] == [
        ("a", "ann", True, 1),
        ("b", "bob", False, 1),
    ]
    stale = cli("claims", *place.target, "Job", "--stale", "-o", "ids")
    assert (stale.exit_code, stale.stdout) == (0, "a\n")
    assert "expired" in cli("claims", *place.target).stdout


def test_a_released_row_is_free_and_its_holder_is_refused(cli: Cli, place: Place) -> None:
    """Another can claim it at once; the history says who took it away and why."""
    place.job("a")
    (mine,) = place.db.claim(Job.work, 1, by="ann")
    release = ("claims", *place.target, "Job.work", "--release", "a", "--reason", "it hangs", "--by", "eve")
    assert rows(cli, *release, "--dry-run")[0]["outcome"] == "would release"
    assert rows(cli, *release, "--yes")[0]["outcome"] == "released"
    assert isinstance(place.db.move(Job.finish, mine), Lost)
    assert rows(cli, *release, "--yes")[0]["outcome"] == "free"
    assert [one.key for one in place.db.claim(Job.work, 1, by="bob")] == ["a"]
    entry = place.db.history(Job, "a")[1]
    assert (entry.move, entry.actor, entry.reason) == ("requeue", "eve", "it hangs")


@pytest.mark.parametrize("claimable", [Dated.work, Marked.work], ids=["timestamp", "marker"])
def test_a_claim_of_every_form_can_be_released(cli: Cli, place: Place, claimable: Claimable[Any]) -> None:
    """By the value that stands in the row; a text that is no claim is left alone."""
    place.put("work_drafts", id="a", status="QUEUED", error="disk full")
    release = ("claims", *place.target, str(claimable), "--release", "a", "--reason", "x", "--yes")
    assert rows(cli, *release)[0]["outcome"] == "free"
    row = place.db.read(Dated, "a")
    assert row is not None
    assert row["error"] == "disk full"
    mine = place.db.claim_one(claimable, "a", by="ann")
    assert isinstance(mine, Claim)
    assert rows(cli, *release)[0]["outcome"] == "released"
    assert isinstance(place.db.move(claimable.lifecycle.moves["finish"], mine), Lost)
    assert isinstance(place.db.claim_one(claimable, "a", by="bob"), Claim)


def test_a_release_needs_a_reason_and_an_existing_row(cli: Cli, place: Place) -> None:
    """Without a reason it is a wrong call, without a row it is not found."""
    missing = cli("claims", *place.target, "Job.work", "--release", "a", "--yes")
    assert (missing.exit_code, "--reason" in missing.stderr) == (2, True)
    gone = cli("claims", *place.target, "Job.work", "--release", "a", "--reason", "x", "--yes")
    assert gone.exit_code == 4
    unasked = cli("claims", *place.target, "Job.work", "--release", "a", "--reason", "x")
    assert (unasked.exit_code, "--yes" in unasked.stderr) == (2, True)


def test_rows_can_be_released_from_a_pipe(cli: Cli, place: Place) -> None:
    """Ids of --stale are keys of --release; a row that is not there does not keep the others."""
    for number, key in enumerate(("a", "b", "c")):
        place.job(key, number)
        place.db.claim_one(Job.work, key, by="ann", now=LONG_AGO if key != "c" else None)
    stale = cli("claims", *place.target, "Job.work", "--stale", "-o", "ids").stdout
    assert stale == "a\nb\n"
    release = ("claims", *place.target, "Job.work", "--release", "-", "--reason", "x", "--yes")
    result = cli(*release, "-o", "json", input=f"{stale}gone\n")
    found = [(row["key"], row["outcome"]) for row in json.loads(result.stdout)]
    assert found == [("a", "released"), ("b", "released"), ("gone", "missing")]
    assert (result.exit_code, "no such row" in result.stderr) == (7, True)
    again = cli(*release, "-o", "ids", input="a\ngone\n")
    assert (again.exit_code, again.stdout) == (7, "a\n")
    assert [row["key"] for row in rows(cli, "claims", *place.target, "Job.work")] == ["c"]
    nothing = cli(*release, "-o", "json", input="")
    assert (nothing.exit_code, json.loads(nothing.stdout)) == (0, [])


def test_a_release_that_breaks_in_the_middle_tells_what_was_done(cli: Cli, sqlite_place: Place) -> None:
    """The rows before have been released and are printed; the code says that it was not all."""
    for number, key in enumerate(("a", "b")):
        sqlite_place.job(key, number)
        sqlite_place.db.claim_one(Job.work, key)
    sqlite_place.raw.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON work_jobs WHEN NEW.id = 'b' BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    release = ("claims", *sqlite_place.target, "Job.work", "--release", "a", "--release", "b")
    result = cli(*release, "--reason", "x", "--yes", "-o", "ids")
    assert (result.exit_code, result.stdout) == (7, "a\n")
    assert "after 1 of 2 rows: disk is full" in result.stderr


def test_deliveries_can_be_resolved_from_a_pipe(cli: Cli, place: Place) -> None:
    """All that are named have ended alike; one that is not uncertain is said, and the others are resolved."""
    for key in ("a", "b", "c"):
        place.put("work_pictures", id=key, state="ready")
        permit = place.db.begin_delivery(pictures, key)
        assert isinstance(permit, SendPermit)
        if key != "c":
            place.db.uncertain(permit)
    resolve = ("delivery", *place.target, "pictures", "--resolve", "-", "--not-arrived", "-o", "json")
    keys = "a\nb\nc\ngone\n"
    for how, outcomes in (
        ("--dry-run", ["would be failed", "would be failed", "would be refused", "missing"]),
        ("--yes", ["failed", "failed", "sending", "missing"]),
    ):
        result = cli(*resolve, how, input=keys)
        assert (result.exit_code, [row["outcome"] for row in json.loads(result.stdout)]) == (7, outcomes)
        assert "'c' is sending, not uncertain" in result.stderr


def test_an_uncertain_delivery_is_listed_and_resolved(cli: Cli, place: Place) -> None:
    """Only an uncertain one can be resolved; saying the same again is no error."""
    for key in ("a", "b"):
        place.put("work_pictures", id=key, state="ready")
    permit = place.db.begin_delivery(pictures, "a", by="ann")
    assert isinstance(permit, SendPermit)
    resolve = ("delivery", *place.target, "pictures", "--resolve", "a", "--arrived", "--by", "eve")
    refused = cli(*resolve, "--yes")
    assert (refused.exit_code, "not uncertain" in refused.stderr) == (3, True)
    place.db.uncertain(permit, "timeout")
    if place.db.dialect == "redis":
        told = cli("delivery", *place.target, "pictures")
        assert (told.exit_code, "cannot search" in told.stderr) == (1, True)
    else:
        (found,) = rows(cli, "delivery", *place.target, "pictures", "--uncertain")
        assert (found["key"], found["state"], found["holder"], found["error"]) == (
            "a",
            "uncertain",
            "ann",
            "timeout",
        )
    assert rows(cli, *resolve, "--dry-run")[0]["outcome"] == "would be delivered"
    assert rows(cli, *resolve, "--yes")[0]["outcome"] == "delivered"
    assert cli(*resolve, "--yes").exit_code == 0
    assert cli("delivery", *place.target, "pictures", "--resolve", "x", "--arrived", "--yes").exit_code == 4


@pytest.mark.parametrize("arrived", ["--arrived", "--not-arrived"])
@pytest.mark.parametrize("state", ["ready", "sending", "uncertain", "delivered", "failed", None])
def test_a_dry_run_ends_as_the_real_one_does(cli: Cli, place: Place, state: str | None, arrived: str) -> None:
    """On every store, for what can be resolved, what cannot, and a row that is not there; and it changes nothing."""
    if state is not None:
        place.put("work_pictures", id="a", state="ready")
    if state not in (None, "ready"):
        permit = place.db.begin_delivery(pictures, "a", by="ann")
        assert isinstance(permit, SendPermit)
        ends: dict[str | None, Any] = {
            "uncertain": place.db.uncertain,
            "delivered": place.db.delivered,
            "failed": place.db.not_sent,
        }
        if state in ends:
            ends[state](permit)
    resolve = ("delivery", *place.target, "pictures", "--resolve", "a", arrived)
    first, second, real = (cli(*resolve, how) for how in ("--dry-run", "--dry-run", "--yes"))
    assert first.output == second.output
    assert (first.exit_code, first.stderr) == (real.exit_code, real.stderr)


def test_a_dry_run_finds_the_row_by_any_spelling_of_its_key(cli: Cli, sql_place: Place) -> None:
    """As the store does when it is asked for it."""
    sql_place.raw.execute("DROP TABLE work_pictures")
    time = "timestamptz" if sql_place.db.dialect == "postgres" else "text"
    sql_place.raw.execute(
        "CREATE TABLE work_pictures (id integer PRIMARY KEY, state text, sender text, send_error text, tries integer,"
        f" delivering_at {time}, delivered_at {time})"
    )
    sql_place.put("work_pictures", id=42, state="ready")
    permit = sql_place.db.begin_delivery(pictures, 42)
    assert isinstance(permit, SendPermit)
    sql_place.db.uncertain(permit)
    resolve = ("delivery", *sql_place.target, "pictures", "--resolve", "042", "--arrived")
    assert rows(cli, *resolve, "--dry-run")[0]["outcome"] == "would be delivered"
    assert rows(cli, *resolve, "--yes")[0]["outcome"] == "delivered"


def test_how_it_ended_has_to_be_said(cli: Cli, place: Place) -> None:
    """--resolve alone could mean either."""
    result = cli("delivery", *place.target, "pictures", "--resolve", "a", "--yes")
    assert (result.exit_code, "--arrived or --not-arrived" in result.stderr) == (2, True)


def test_the_active_attempt_of_an_owner_is_shown_with_its_history(cli: Cli, place: Place) -> None:
    """And who has none is told so."""
    place.db.start_attempt(logins, "ann", "l1", by="web")
    place.db.start_attempt(logins, "ann", "l2", by="phone")
    result = cli("attempts", *place.target, "logins", "ann", "-o", "json")
    found = json.loads(result.stdout)
    assert (found["key"], found["status"]) == ("l2", "pending")
    assert [(entry["move"], entry["actor"]) for entry in found["history"]] == [("attempt", "phone")]
    assert cli("attempts", *place.target, "logins", "ann", "-o", "ids").stdout == "l2\n"
    assert "pending" in cli("attempts", *place.target, "logins", "ann").stdout
    nobody = cli("attempts", *place.target, "logins", "bob")
    assert (nobody.exit_code, "no active attempt" in nobody.stderr) == (4, True)


def test_the_leader_is_told_with_its_epoch(cli: Cli, place: Place) -> None:
    """By the declared lease, by its name, and where nobody leads."""
    assert rows(cli, "leader", *place.target, "bot_lease")[0]["holder"] is None
    assert "(none)" in cli("leader", *place.target).stdout
    leading = place.db.acquire_lease(bot_lease, "ann")
    for args in (
        ("leader", *place.target),
        ("leader", *place.target, "bot"),
        ("leader", f"{WORKING}:bot_lease", "--url", place.url),
        ("leader", "bot", "--table", "work_leases", "--url", place.url),
    ):
        (found,) = rows(cli, *args)
        assert (found["lease"], found["holder"], found["epoch"]) == ("bot", "ann", leading.epoch)  # type: ignore[union-attr]
        assert found["until"] is not None


def kill(place: Place, *ids: str) -> None:
    """Events that fail until they are dead."""
    for number in ids:
        place.db.receive(events, Arrival("tg", number, b"{}"), now=LONG_AGO)
    for _ in range(2):
        for mine in place.db.claim(events.work, 10, now=LONG_AGO):
            place.db.fail(mine, delay=0, now=LONG_AGO)


def test_dead_events_are_counted_listed_and_revived(cli: Cli, place: Place) -> None:
    """A revived event has all its attempts again, and is really worked on."""
    kill(place, "1", "2")
    if place.db.dialect == "redis":
        told = cli("inbox", *place.target, "--dead")
        assert (told.exit_code, "cannot search" in told.stderr) == (1, True)
    else:
        (counted,) = rows(cli, "inbox", *place.target)
        assert (counted["status"], counted["events"]) == ("dead", 2)
        assert counted["oldest"].startswith(f"{LONG_AGO:%Y-%m-%d}")
        found = rows(cli, "inbox", *place.target, "events", "--dead")
        assert [(row["source"], row["event_id"], row["attempts"]) for row in found] == [
            ("tg", "1", 2),
            ("tg", "2", 2),
        ]
        assert cli("inbox", *place.target, "--dead", "-o", "ids").stdout == "tg,1\ntg,2\n"
    revive = ("inbox", *place.target, "--revive", "tg,1", "--revive", "tg,9")
    assert [row["outcome"] for row in rows(cli, *revive, "--dry-run", code=7)] == ["would move", "missing"]
    assert [row["outcome"] for row in rows(cli, *revive, "--yes", code=7)] == ["moved", "missing"]
    (mine,) = place.db.claim(events.work, 10)
    assert (mine.key, mine.attempt) == (("tg", "1"), 1)


def test_dead_events_can_be_revived_from_a_pipe(cli: Cli, sql_place: Place) -> None:
    """Ids of --dead are keys of --revive."""
    kill(sql_place, "1", "2")
    dead = cli("inbox", *sql_place.target, "--dead", "-o", "ids").stdout
    result = cli("inbox", *sql_place.target, "--revive", "-", "--yes", "-o", "ids", input=dead)
    assert (result.exit_code, result.stdout) == (0, dead)
    assert len(sql_place.db.claim(events.work, 10)) == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["claims", "--app", WORKING, "Nothing"],
            "there is no claim 'Nothing'; there are Job.work, Line.work",
        ),
        (["claims", "--app", "tests.ops.cli.declared"], "no store given"),
        (["claims", "--app", "tests.ops.cli.declared", "Job.work"], "tests.ops.cli.declared declares none"),
        (["claims", "--app", "json"], "--app json: no declarations found"),
        (["claims", "--app", WORKING, "--app", "json"], "--app json: no declarations found"),
        (["claims", "--app", "json", "Job.work"], "--app json: no declarations found"),
        (["stuck", "--app", "json"], "no declarations found"),
        (["leader", "--app", "json"], "no declarations found"),
        (["leader", "--app", "json", "bot"], "no declarations found"),
        (["sweep", "--app", "json", "--yes"], "no declarations found"),
        (["delivery", "--app", "json", "pictures"], "no declarations found"),
        (["attempts", "--app", "json", "logins", "ann"], "no declarations found"),
        (["inbox", "--app", "json"], "no declarations found"),
        (["inbox", "--app", "json", "events"], "no declarations found"),
        (["doctor", "--app", "json"], "no declarations found"),
        (["sql", "--app", "json"], "no declarations found"),
        (["claims", f"{WORKING}:pictures"], "is not claim"),
        (["claims", f"{WORKING}:nothing"], "has no 'nothing'; it has Job, Job.work"),
        (["claims", "Job.work"], "no declarations given"),
        (["delivery", "--app", WORKING, "logins"], "there is no delivery 'logins'; there are pictures"),
        (["attempts", "--app", WORKING, "pictures", "ann"], "there is no attempts 'pictures'"),
        (["inbox", "--app", WORKING, "Job"], "there is no inbox 'Job'; there are events"),
        (["inbox", "--app", WORKING, "--revive", "tg", "--yes"], "must have 2 parts, source,event_id"),
        (["sweep", "--app", WORKING, "Job", "--url", "sqlite:///x"], "there is no terminal to ask on"),
    ],
)
def test_a_wrong_target_ends_with_2_and_says_what_there_is(cli: Cli, args: list[str], said: str) -> None:
    """Before anything is opened."""
    result = cli(*args)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_the_only_delivery_need_not_be_named(cli: Cli, sql_place: Place) -> None:
    """As with claims, inboxes and leases."""
    sql_place.put("work_pictures", id="a", state="sending", delivering_at="2020-01-01 00:00:00.000+00:00")
    named = cli("delivery", *sql_place.target, "pictures", "-o", "ids")
    assert named.exit_code == 0
    assert cli("delivery", *sql_place.target, "-o", "ids").stdout == named.stdout == "a\n"


def test_of_several_deliveries_one_must_be_named(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where none is declared, that is said."""
    declared = ("one = Delivery('one', 'a')", "two = Delivery('two', 'b')", "lease = Lease('x')")
    source = "\n".join(("from raceproof import Delivery, Lease", *declared))
    (tmp_path / "has_deliveries.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert "several delivery declarations: name one of one, two." in cli("delivery", "--app", "has_deliveries").stderr
    assert "has_deliveries:lease declares no delivery" in cli("delivery", "--app", "has_deliveries:lease").stderr
