"""L16: work that is stuck is found on every store, with its evidence, and the printed repair works when it is pasted."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from raceproof import SendPermit
from raceproof.inbox import Arrival
from raceproof.ops.doctor import diagnose
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.declared import Job, Parcel, letters, logins, pictures

LONG_AGO = datetime.now(UTC) - timedelta(days=2)


def test_a_healthy_store_has_no_finding(ill: Ill) -> None:
    """Work that waits, is under way, has been delivered and has ended is no problem."""
    for key in ("waits", "runs", "ends"):
        ill.put("ill_jobs", id=key, status="QUEUED", made_at=1)
    ill.db.offer(Job.work, ["waits", "runs", "ends"])
    claims = ill.db.claim(Job.work, 2, by="w")
    ill.db.move(Job.finish, claims[0], by="w")
    ill.db.start_attempt(logins, "ann", "a-1")
    ill.db.start_attempt(logins, "ann", "a-2")
    ill.put("ill_pictures", id="p", state="ready")
    permit = ill.db.begin_delivery(pictures, "p")
    assert isinstance(permit, SendPermit)
    ill.db.delivered(permit)
    ill.db.receive(letters, Arrival("shop", "e-1", b"{}"))
    found = ill.diagnose()
    assert found.problems == ()
    assert found.healthy
    assert {one.check for one in found.checked} >= {"clock", "status", "stuck.claim", "owner", "stuck.inbox"}


def test_a_lease_that_was_over_long_ago_is_found_and_released(ill: Ill) -> None:
    """Who held it and until when is the evidence; a lease that is over since a moment is none."""
    for key, at in (("old", LONG_AGO), ("new", None)):
        ill.put("ill_jobs", id=key, status="QUEUED", made_at=1)
        ill.db.offer(Job.work, [key])
        assert ill.db.claim_one(Job.work, key, by="worker-7", now=at).won
    found = ill.problem("stuck.claim")
    (row,) = found.evidence
    assert (row["key"], row["holder"], row["status"]) == ("old", "worker-7", "RUNNING")
    ill.is_cured(found)
    assert (ill.db.read(Job, "old") or {})["status"] == "QUEUED"


def test_rows_out_of_attempts_are_found_and_dead_lettered(ill: Ill) -> None:
    """A sweep does it, so it is safe."""
    ill.put("ill_jobs", id="tired", status="QUEUED", made_at=1, attempts=3)
    ill.db.offer(Job.work, ["tired"])
    found = ill.problem("stuck.claim")
    assert found.repair is not None
    assert found.repair.safe
    assert found.evidence[0]["key"] == "tired"
    ill.is_cured(found)
    assert (ill.db.read(Job, "tired") or {})["status"] == "DEAD"


def test_rows_out_of_attempts_without_a_way_out_get_a_move(ill: Ill) -> None:
    """Which move, is for a person to say: it is not safe."""
    ill.put("ill_parcels", shop="-it's", number=7, status="QUEUED", attempts=2)
    ill.db.offer(Parcel.work, [("-it's", 7)])
    found = ill.problem("stuck.claim")
    assert found.repair is not None
    assert not found.repair.safe
    ill.is_cured(found)
    assert (ill.db.read(Parcel, ("-it's", 7)) or {})["status"] == "DEAD"


@pytest.mark.parametrize(("ended", "sends_again"), [("--arrived", False), ("--not-arrived", True)])
def test_a_delivery_whose_end_nobody_knows_is_found_and_resolved(ill: Ill, ended: str, sends_again: bool) -> None:
    """Its sender took it long ago. Pasted as it is, the repair assumes nothing: a person chooses the line that is true."""
    ill.put("ill_pictures", id="p-1", state="ready")
    permit = ill.db.begin_delivery(pictures, "p-1", by="sender-1", now=LONG_AGO)
    assert isinstance(permit, SendPermit)
    ill.db.sending(permit, now=LONG_AGO)
    found = ill.problem("stuck.delivery")
    assert found.level == "error"
    assert found.evidence[0]["key"] == "p-1"
    assert found.evidence[0]["holder"] == "sender-1"
    ill.paste(found)
    assert found.repair is not None
    assert ill.problem("stuck.delivery").evidence == found.evidence
    (chosen,) = [line.removeprefix("# ") for line in found.repair.text.splitlines() if f" {ended} " in line]
    ill.is_cured(replace(found, repair=replace(found.repair, text=chosen)))
    assert isinstance(ill.db.begin_delivery(pictures, "p-1"), SendPermit) == sends_again


def test_those_under_way_hide_no_delivery_whose_end_nobody_knows(ill: Ill) -> None:
    """However few rows are shown."""
    for key in ("a", "b", "z"):
        ill.put("ill_pictures", id=key, state="ready")
        permit = ill.db.begin_delivery(pictures, key)
    assert isinstance(permit, SendPermit)
    ill.db.uncertain(permit)
    (found,) = diagnose(ill.db, pictures, limit=1).problems
    assert (found.check, [row["key"] for row in found.evidence]) == ("stuck.delivery", ["z"])


def test_attempts_whose_time_is_over_are_found_and_ended(ill_sql: Ill) -> None:
    """On Redis they end by themselves."""
    ill_sql.db.start_attempt(logins, "ann", "late", now=LONG_AGO)
    found = ill_sql.problem("stuck.attempt")
    assert found.evidence == ({"id": "late"},)
    ill_sql.is_cured(found)


def test_dead_events_are_found_and_revived(ill: Ill) -> None:
    """With their source and id, however odd."""
    ill.db.receive(letters, Arrival("shop", "e:1 %", b"{}"))
    (event,) = ill.db.claim(letters.work, 1)
    ill.db.fail(event, reason="broken")
    found = ill.problem("stuck.inbox")
    assert (found.evidence[0]["source"], found.evidence[0]["event_id"]) == ("shop", "e:1 %")
    ill.is_cured(found)
    assert len(ill.db.claim(letters.work, 1)) == 1


def test_evidence_is_bounded_and_says_that_there_is_more(ill: Ill) -> None:
    """Two rows are shown of five."""
    for key in range(5):
        ill.put("ill_jobs", id=f"t{key}", status="QUEUED", made_at=key, attempts=9)
    ill.db.offer(Job.work, [f"t{key}" for key in range(5)])
    found = ill.problem("stuck.claim", limit=2)
    assert len(found.evidence) == 2
    assert found.more


def test_what_is_looked_at_can_be_left_out_and_named_plainly(ill: Ill) -> None:
    """`stuck` stands for all that begin so; a thing needs no subject."""
    ill.put("ill_jobs", id="tired", status="QUEUED", made_at=1, attempts=3)
    ill.db.offer(Job.work, ["tired"])
    assert diagnose(ill.db, Job.work, ignore=("stuck", "guard")).healthy
    (problem,) = diagnose(ill.db, Job).problems
    assert problem.repair is not None
    assert problem.repair.text == "raceproof sweep Job.work --yes"
