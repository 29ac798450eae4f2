"""`raceproof doctor`: exit codes, forms of output, and that nothing is done without --fix."""

import json
from typing import Any

from raceproof.testing import ValkeyServer
from tests.ops.doctor.conftest import APP, Ill
from tests.ops.doctor.declared import Job


def doctor(ill: Ill, *args: str, **options: Any) -> Any:
    return ill.cli("doctor", "--app", APP, "--url", ill.url, *args, **options)


def tire(ill: Ill, key: str = "tired") -> None:
    ill.put("ill_jobs", id=key, status="QUEUED", made_at=1, attempts=3)
    ill.db.offer(Job.work, [key])


def test_a_healthy_store_exits_with_0_and_a_sick_one_with_6(ill: Ill) -> None:
    """And the repair is shown whole, with the options that were typed."""
    result = doctor(ill)
    assert result.exit_code == 0, result.output
    assert "no problem" in result.stderr
    assert result.stdout == ""
    tire(ill)
    result = doctor(ill)
    assert result.exit_code == 6
    assert f"raceproof sweep --app {APP} --url {ill.url} Job.work --yes" in result.stdout
    assert "tired" in result.stdout


def test_nothing_is_done_without_fix_nor_without_consent(ill: Ill) -> None:
    """Not by looking, not by a dry run, and not where nobody can be asked."""
    tire(ill)
    for args, code in (((), 6), (("--fix", "--dry-run"), 6), (("--dry-run", "--yes"), 6), (("--fix",), 2)):
        assert doctor(ill, *args).exit_code == code
        assert (ill.db.read(Job, "tired") or {})["status"] == "QUEUED"


def test_fix_does_the_safe_ones_and_leaves_the_others(ill: Ill) -> None:
    """What is left is a problem still: exit code 6."""
    tire(ill)
    result = doctor(ill, "--fix", "--yes", "--by", "ann")
    assert result.exit_code == 0, result.output
    assert "repaired: Job" in result.stderr
    assert (ill.db.read(Job, "tired") or {})["status"] == "DEAD"
    assert ill.db.history(Job, "tired")[0].actor == "ann"
    ill.put("ill_parcels", shop="x", number=1, status="QUEUED", attempts=2)
    if ill.dialect == "redis":
        ill.raw.zadd("ill_parcels/work", {"x:1": 1})
    tire(ill, "again")
    result = doctor(ill, "--fix", "--yes", "-o", "json")
    assert result.exit_code == 6
    told = json.loads(result.stdout)
    assert [one["target"] for one in told["fixed"]] == ["Job"]
    assert [one["target"] for one in told["problems"]] == ["Parcel"]
    assert told["problems"][0]["repair"]["safe"] is False


def test_json_lines_can_be_read_by_the_next_program(ill: Ill) -> None:
    """One problem on a line; control characters of a row cannot drive the terminal."""
    ill.put("ill_jobs", id="\x1b[31mred", status="QUEUED", made_at=1, attempts=3)
    ill.db.offer(Job.work, ["\x1b[31mred"])
    (line,) = doctor(ill, "-o", "jsonl").stdout.splitlines()
    told = json.loads(line)
    assert (told["check"], told["level"], told["evidence"][0]["key"]) == (
        "stuck.claim",
        "error",
        "\x1b[31mred",
    )
    assert "\x1b" not in doctor(ill).stdout


def test_targets_and_ignored_checks(ill: Ill) -> None:
    """What is named is looked at, and nothing else."""
    tire(ill)
    assert doctor(ill, "logins").exit_code == 0
    assert doctor(ill, "Job.work").exit_code == 6
    assert doctor(ill, "--ignore", "stuck").exit_code == 0
    assert doctor(ill, "nothing").exit_code == 2


def test_a_secret_is_in_no_repair(ill_postgres: Ill) -> None:
    """A URL with a password is named by its variable."""
    tire(ill_postgres)
    secret = ill_postgres.url.replace("://", "://postgres:hush-hush@", 1) if "@" not in ill_postgres.url else ""
    secret = secret or ill_postgres.url.replace("@", ":hush-hush@", 1)
    result = ill_postgres.cli("doctor", "--app", APP, "--url", secret)
    assert result.exit_code == 6, result.output
    assert "hush-hush" not in result.output
    assert '--url "$RACEPROOF_URL"' in result.stdout


def test_a_store_that_is_not_there_exits_with_5(cli: Any, valkey_server: ValkeyServer) -> None:
    assert cli("doctor", "--app", APP, "--url", "redis://127.0.0.1:1/0").exit_code == 5
