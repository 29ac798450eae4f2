"""`stuck` and `sweep`: what does not go on by itself is told with its repair, and the repair repairs it."""

import json
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from raceproof import SendPermit
from raceproof.inbox import Arrival
from tests.ops.cli.conftest import Cli
from tests.ops.cli.fix_working import LONG_AGO, Place
from tests.ops.cli.working import Job, Line, events, logins, pictures


def stuck(cli: Cli, place: Place, *names: str, code: int = 6) -> list[dict[str, Any]]:
    result = cli("stuck", *place.target, *names, "-o", "json")
    assert result.exit_code == code, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def repair(cli: Cli, place: Place, text: str, *more: str) -> None:
    """Run what was advised, with what a person has to fill in."""
    program, *args = shlex.split(text)
    assert program == "raceproof"
    result = cli(*args, *more, "--url", place.url)
    assert result.exit_code == 0, result.output


def test_nothing_stuck_ends_with_0(cli: Cli, place: Place) -> None:
    """Work that is held or waits is not stuck."""
    place.job("a")
    place.job("b", 1)
    place.db.claim(Job.work, 1)
    assert stuck(cli, place, code=0) == []
    assert "nothing is stuck" in cli("stuck", *place.target, "Job").stderr


def test_a_lease_that_is_over_is_told_since_when(cli: Cli, place: Place) -> None:
    """With the holder, and the command that frees the row at once."""
    place.job("a")
    place.db.claim_one(Job.work, "a", by="ann", now=LONG_AGO)
    (found,) = stuck(cli, place, "Job")
    assert (found["target"], found["key"], found["holder"], found["status"]) == (
        "Job.work",
        "a",
        "ann",
        "RUNNING",
    )
    ended = datetime.fromisoformat(found["since"])
    assert abs(ended - LONG_AGO - timedelta(seconds=60)) < timedelta(milliseconds=2)
    repair(cli, place, found["repair"], "--yes")
    assert stuck(cli, place, "Job", code=0) == []


def test_a_row_that_is_out_of_attempts_is_swept(cli: Cli, place: Place) -> None:
    """Where the claim says what becomes of it."""
    place.job("a", attempts=3)
    (found,) = stuck(cli, place)
    assert (found["key"], found["why"]) == ("a", "out of attempts")
    repair(cli, place, found["repair"])
    row = place.db.read(Job, "a")
    assert row is not None
    assert row["status"] == "DEAD"
    assert stuck(cli, place, code=0) == []


def test_a_row_that_is_out_of_attempts_and_has_no_way_out_names_the_moves(cli: Cli, place: Place) -> None:
    """A person has to choose one."""
    place.put("work_lines", id="x y", status="QUEUED", made_at=1, device="d", attempts=2)
    (found,) = stuck(cli, place, "Line.work")
    assert "declares no dead_letter=" in found["why"]
    assert found["repair"] == "raceproof move --app tests.ops.cli.working Line bury 'x y'"
    repair(cli, place, found["repair"], "--yes")
    assert stuck(cli, place, code=0) == []


def test_an_uncertain_delivery_is_stuck(cli: Cli, sql_place: Place) -> None:
    """Until somebody has looked."""
    sql_place.put("work_pictures", id="p", state="ready")
    permit = sql_place.db.begin_delivery(pictures, "p", by="ann")
    assert isinstance(permit, SendPermit)
    sql_place.db.uncertain(permit)
    (found,) = stuck(cli, sql_place, "pictures")
    assert (found["key"], found["why"], found["holder"]) == ("p", "its outcome is unknown", "ann")
    command = found["repair"].replace("# and --arrived or --not-arrived", "--not-arrived")
    repair(cli, sql_place, command, "--yes")
    assert stuck(cli, sql_place, code=0) == []


def test_those_under_way_hide_no_delivery_whose_end_nobody_knows(cli: Cli, sql_place: Place) -> None:
    """However few are looked at: `stuck` finds it, and so does `delivery --uncertain`."""
    for key in ("a", "b", "z"):
        sql_place.put("work_pictures", id=key, state="ready")
        permit = sql_place.db.begin_delivery(pictures, key)
    assert isinstance(permit, SendPermit)
    sql_place.db.uncertain(permit)
    (found,) = stuck(cli, sql_place, "pictures", "--limit", "1")
    assert found["key"] == "z"
    told = cli("stuck", *sql_place.target, "pictures", "--limit", "1").stderr
    assert "pictures: the first 1 are listed; raise --limit for more" in told
    assert "are listed" not in cli("stuck", *sql_place.target, "pictures").stderr
    listed = cli("delivery", *sql_place.target, "pictures", "--uncertain", "--limit", "1", "-o", "ids")
    assert (listed.exit_code, listed.stdout) == (0, "z\n")


def test_an_attempt_whose_time_is_over_is_stuck(cli: Cli, sql_place: Place) -> None:
    """A sweep ends it."""
    sql_place.db.start_attempt(logins, "ann", "l1", now=LONG_AGO)
    (found,) = stuck(cli, sql_place, "logins")
    assert (found["key"], found["why"], found["status"]) == ("l1", "overdue", "pending")
    repair(cli, sql_place, found["repair"])
    assert stuck(cli, sql_place, code=0) == []


def test_a_dead_event_is_stuck(cli: Cli, sql_place: Place) -> None:
    """Until it is revived."""
    sql_place.db.receive(events, Arrival("tg", "7", b"{}"), now=LONG_AGO)
    for _ in range(2):
        (mine,) = sql_place.db.claim(events.work, now=LONG_AGO)
        sql_place.db.fail(mine, delay=0, now=LONG_AGO)
    (found,) = stuck(cli, sql_place)
    assert (found["target"], found["key"], found["why"]) == ("events", ["tg", "7"], "dead")
    repair(cli, sql_place, found["repair"], "--yes")
    assert stuck(cli, sql_place, code=0) == []


def test_what_redis_cannot_be_searched_for_is_said(cli: Cli, valkey_place: Place) -> None:
    """And the rest is looked at."""
    valkey_place.job("a", attempts=3)
    result = cli("stuck", *valkey_place.target, "-o", "ids")
    assert (result.exit_code, result.stdout) == (6, "a\n")
    assert result.stderr.count("could not be read:") == 3


def test_nothing_is_said_of_what_could_not_be_looked_at(cli: Cli, valkey_place: Place) -> None:
    """That the rest is well is no word about it."""
    result = cli("stuck", *valkey_place.target, "-o", "ids")
    assert (result.exit_code, result.stdout) == (0, "")
    last = result.stderr.splitlines()[-1]
    assert last == "nothing is stuck in the targets that could be read; unknown for logins, pictures, events"
    assert cli("stuck", *valkey_place.target, "Job").stderr == "nothing is stuck\n"


@pytest.mark.parametrize("table", ["work_inbox", "work_pictures", "work_leases"])
def test_a_missing_table_leads_to_who_sees_it(cli: Cli, sql_place: Place, table: str) -> None:
    """`verify` knows lifecycles only; `sql` prints what to create, and `doctor` says that it is missing."""
    sql_place.raw.execute(f"DROP TABLE {table}")
    command = {
        "work_inbox": ("inbox",),
        "work_pictures": ("delivery", "pictures"),
        "work_leases": ("leader",),
    }
    result = cli(command[table][0], *sql_place.target, *command[table][1:])
    assert (result.exit_code, result.stdout, table in result.stderr) == (1, "", True)
    assert "`raceproof doctor`" in result.stderr
    assert "`raceproof sql`" in result.stderr
    assert "verify" not in result.stderr
    assert table in cli("doctor", *sql_place.target).stdout


def test_one_missing_table_hides_nothing_of_the_others(cli: Cli, sql_place: Place) -> None:
    """It is told, the others are looked at, and the code says that it was not all."""
    sql_place.job("a", attempts=3)
    sql_place.job("b")
    sql_place.db.claim_one(Job.work, "b", by="ann")
    sql_place.raw.execute("DROP TABLE work_inbox")
    sql_place.raw.execute("DROP TABLE work_lines")
    for command, key in (("stuck", "a"), ("claims", "b")):
        result = cli(command, *sql_place.target, "-o", "ids")
        assert (result.exit_code, result.stdout) == (7, f"{key}\n"), result.stderr
        assert result.stderr.count("`raceproof doctor`") == 1
        for table in ("work_inbox", "work_lines"):
            assert table in result.stderr
        alone = cli(command, *sql_place.target, "Line.work", "-o", "json")
        assert (alone.exit_code, alone.stdout) == (1, "")
    well = cli("claims", *sql_place.target, "Dated.work", "Line.work", "-o", "ids")
    assert (well.exit_code, well.stdout) == (7, "")
    assert "no row is held in the targets that could be read" in well.stderr


def test_a_sweep_says_what_it_could_not_look_at(cli: Cli, valkey_place: Place) -> None:
    """No number is told for overdue attempts that Redis cannot be searched for."""
    valkey_place.db.start_attempt(logins, "ann", "l1", now=LONG_AGO)
    result = cli("sweep", *valkey_place.target, "logins", "--yes")
    assert (result.exit_code, "could not be read: Logging.attempt: Redis cannot" in result.stderr) == (0, True)
    assert result.stdout.splitlines()[-1].split() == ["Logging.attempt", "not", "looked", "at"]
    assert swept(cli, valkey_place, "logins", "--yes") == {("Logging.attempt", "not looked at"): 0}


def swept(cli: Cli, place: Place, *args: str) -> dict[tuple[str, str], int]:
    result = cli("sweep", *place.target, *args, "-o", "json")
    assert result.exit_code == 0, result.output
    return {(row["target"], row["work"]): row["number"] for row in json.loads(result.stdout)}


def test_a_dry_sweep_counts_and_changes_nothing(cli: Cli, place: Place) -> None:
    """The same numbers come from the sweep itself."""
    for number in range(3):
        place.job(f"j{number}", number, attempts=3)
    place.db.claim_one(Line.work, "none")
    dry = swept(cli, place, "--dry-run")
    assert dry[("Job.work", "dead-lettered")] == 3
    row = place.db.read(Job, "j0")
    assert row is not None
    assert row["status"] == "QUEUED"
    assert swept(cli, place, "--yes", "--batch", "2") == dry
    entry = place.db.history(Job, "j0")[0]
    assert (entry.move, entry.before, entry.after) == ("give_up", "QUEUED", "DEAD")


def test_history_is_kept_unless_a_time_is_said(cli: Cli, sql_place: Place) -> None:
    """And of what is older, only that of the target goes."""
    sql_place.job("a")
    sql_place.db.move(Job.start, "a", now=LONG_AGO)
    sql_place.db.start_attempt(logins, "ann", "l1", now=LONG_AGO)
    assert ("Job", "history") not in swept(cli, sql_place, "Job", "--yes")
    assert swept(cli, sql_place, "Job", "--keep-days", "101", "--yes")[("Job", "history")] == 0
    assert swept(cli, sql_place, "Job", "--keep-days", "99", "--yes")[("Job", "history")] == 1
    assert sql_place.db.history(Job, "a") == []
    assert len(sql_place.db.history(logins.lifecycle, "l1")) == 1


@pytest.mark.parametrize("days", ["0", "-1", "inf", "nan", "1e300"])
def test_history_cannot_be_deleted_whole(cli: Cli, sqlite_place: Place, days: str) -> None:
    """A time to keep is more than none, and has an end."""
    assert cli("sweep", *sqlite_place.target, "--keep-days", days, "--yes").exit_code == 2


def test_a_sweep_is_told_in_a_table(cli: Cli, sqlite_place: Place) -> None:
    """For people, with a word about what a dry run is."""
    sqlite_place.db.receive(events, Arrival("tg", "1", b"{}"), now=datetime.now(UTC))
    result = cli("sweep", *sqlite_place.target, "--dry-run")
    assert "inbox work_inbox   forgotten       0" in result.stdout
    assert "nothing was changed" in result.stderr


def test_a_sweep_that_is_cut_short_tells_what_it_has_done(cli: Cli, sqlite_place: Place) -> None:
    """What was swept stays so; the code says that it was not all."""
    sqlite_place.job("a", attempts=3)
    sqlite_place.raw.execute("DROP TABLE work_inbox")
    result = cli("sweep", *sqlite_place.target, "--yes", "-o", "json")
    assert (result.exit_code, "swept only in part" in result.stderr) == (7, True)
    done = {(row["target"], row["work"]): row["number"] for row in json.loads(result.stdout)}
    assert done["Job.work", "dead-lettered"] == 1
    row = sqlite_place.db.read(Job, "a")
    assert row is not None
    assert row["status"] == "DEAD"
