"""Claims, deliveries, attempts, leases and the inbox inside the caller's transaction (L3, P6, P15), on every connection."""

from datetime import UTC, datetime, timedelta

import pytest

from raceproof import Attempts, Claim, Inbox, Lease, LeaseGranted, Lost, SendPermit, Started
from raceproof.inbox import Arrival
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.jobs import FORMS, jobs
from raceproof.testing.contract.pictures import pictures
from tests.integrations.own.fix_kinds import IN_TRANSACTION, Case

pytestmark = pytest.mark.parametrize("case", IN_TRANSACTION, indirect=True)

NOON = datetime(2030, 1, 2, 12, 0, 0, 250_000, tzinfo=UTC)
LATER = NOON + timedelta(seconds=1000)


@pytest.mark.parametrize("form", FORMS)
async def test_a_claim_lives_and_dies_with_the_caller_s_transaction(case: Case, form: str) -> None:
    """Rolled back, it never was; committed, its finish and the caller's own writes are one (P6)."""
    job = jobs(case.ground, form, history=True)
    case.ground.run(f"CREATE TABLE {job.table}_effects (effect text)")
    for number, key in enumerate("ab"):
        case.ground.put(job, key, "QUEUED", made_at=number)
    before = case.ground.get(job, "a")
    await case.own.begin()
    claims = await case.db.claim(job.claims["work"], 2, by="ann", now=NOON)
    assert [one.key for one in claims] == ["a", "b"]
    await case.own.rollback()
    assert case.ground.get(job, "a") == before

    await case.own.begin()
    (mine,) = await case.db.claim(job.claims["work"], 1, by="ann", now=NOON)
    await case.own.commit()
    await case.own.begin()
    await case.own.run(f"INSERT INTO {job.table}_effects VALUES ('done')")
    (done,) = await case.db.move_many(job.moves["finish"], [mine], set={"result": "1"})
    assert done.won
    assert case.ground.run(f"SELECT effect FROM {job.table}_effects") == []
    await case.own.commit()
    assert case.ground.run(f"SELECT effect FROM {job.table}_effects") == [("done",)]
    assert case.ground.get(job, "a")["status"] == "DONE"


@pytest.mark.parametrize("form", FORMS)
async def test_a_stale_holder_is_refused_whatever_its_connection(case: Case, form: str) -> None:
    """P4 and P5 through every driver's parameters and types."""
    job = jobs(case.ground, form, claim={"max_attempts": None, "dead_letter": None})
    case.ground.put(job, "a", "QUEUED", made_at=1)
    await case.own.begin()
    (late,) = await case.db.claim(job.claims["work"], by="late", now=NOON)
    (current,) = await case.db.claim(job.claims["work"], by="next", now=LATER)
    assert isinstance(await case.db.move(job.moves["finish"], late), Lost)
    assert [one.outcome for one in await case.db.renew([late, current], now=LATER)] == ["lost", "claimed"]
    (kept,) = (
        await case.db.renew(current, now=LATER)
        if form == "columns"
        else await case.db.claim(job.claims["work"], by="third", now=LATER + timedelta(seconds=100))
    )
    assert isinstance(kept, Claim)
    assert [one.outcome for one in await case.db.fail([late, kept], now=LATER)] == ["lost", "released"]
    await case.own.commit()
    assert case.ground.get(job, "a")["status"] == "QUEUED"


async def test_a_delivery_an_attempt_and_a_lease_in_one_transaction(case: Case) -> None:
    """All of them, or none."""
    delivery, picture = pictures(case.ground, True)
    attempts, login = logins(case.ground)
    lease = Lease("bot", 30, fresh_name("leases"))
    case.ground.lease_table(lease.table)
    inbox = Inbox(fresh_name("inbox"))
    case.ground.inbox_table(inbox)
    for end in (case.own.rollback, case.own.commit):
        await case.own.begin()
        permit = await case.db.begin_delivery(delivery, "a", now=NOON)
        assert isinstance(permit, SendPermit)
        assert (await case.db.delivered(permit, now=NOON)).won
        assert isinstance(await case.db.start_attempt(attempts, "ann", "l1", now=NOON), Started)
        assert isinstance(await case.db.start_attempt(attempts, "ann", "l2", now=NOON), Started)
        leading = await case.db.acquire_lease(lease, "ann", now=NOON)
        assert isinstance(leading, LeaseGranted)
        (told,) = await case.db.receive_many(inbox, [Arrival("t", "1", b"\x00{}")], now=NOON)
        assert not told.duplicate
        await end()
    assert case.ground.get(picture, "a")["state"] == "delivered"
    assert case.ground.get(login, "l1")["status"] == "superseded"
    assert isinstance(attempts, Attempts)
