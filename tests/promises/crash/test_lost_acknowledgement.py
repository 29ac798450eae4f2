"""Acknowledgements that are lost (P12): claims, turns, attempts, leases and events know it, and asking again is safe."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import redis

from raceproof import (
    Claim,
    Inbox,
    Lease,
    LeaseGranted,
    LeaseHeldByOther,
    Lost,
    Moved,
    PermitLost,
    Released,
    SendPermit,
    SendRefused,
    Started,
    Store,
    Taken,
    Unknown,
    connect,
)
from raceproof.inbox import Arrival
from raceproof.testing import Proxy
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.pictures import pictures
from tests.fix_told import notes_of
from tests.promises.crash.test_claims import LEASE, prepared
from tests.promises.crash.waiting import until
from tests.promises.race.beside import beside
from tests.promises.race.places import Place, open_place

BROKEN = (psycopg.OperationalError, redis.ConnectionError)


@dataclass
class Cut:
    """A store behind a proxy, and the same one seen directly."""

    db: Store
    direct: Store
    proxy: Proxy
    place: Place

    def lose(self, command: str | None = None) -> None:
        """Lose the acknowledgement of the next call."""
        if self.db.dialect == "redis":
            command = "EVALSHA"
        self.proxy.cut_after_reply(command)


@pytest.fixture(params=["postgres", "redis"])
def cut(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Cut]:
    """Each store that is reached by a network."""
    place = open_place(request.param, request, tmp_path)
    with Proxy(place.url) as proxy, connect(proxy.url) as db, connect(place.url) as direct:
        yield Cut(db, direct, proxy, place)


def test_a_lost_claim_is_an_error_and_its_rows_come_back_after_the_lease(cut: Cut) -> None:
    """Nobody knows which rows it took, so it says when they are free; the attempt counts."""
    spec = prepared(cut.place, "warm", "j")
    (warm,) = cut.db.claim(spec.claims["work"])
    cut.db.renew(warm, lease=60)
    cut.lose()
    with pytest.raises(BROKEN) as lost:
        cut.db.claim(spec.claims["work"])
    assert f"are free after {LEASE:g} s" in notes_of(lost.value)
    assert cut.proxy.cuts == 1
    # PostgreSQL claims in one statement; on Redis it was the search that was lost, and nothing was claimed
    claimed = (cut.direct.read(spec, "j") or {})["status"] == "RUNNING"
    (mine,) = until(lambda: cut.db.claim(spec.claims["work"], 10), lambda claims: len(claims) > 0)
    assert (mine.key, mine.attempt) == ("j", 2 if claimed else 1)
    assert isinstance(cut.db.move(spec.moves["finish"], mine), Moved)


def test_a_lost_claim_of_one_row_is_unknown_and_the_row_is_held_for_a_lease(cut: Cut) -> None:
    """Asking again tells that it is held; after the lease it can be claimed."""
    spec = prepared(cut.place, "warm", "j")
    cut.db.claim_one(spec.claims["work"], "warm", by="me", lease=60)
    cut.lose()
    assert isinstance(cut.db.claim_one(spec.claims["work"], "j", by="me", lease=60), Unknown)
    held = cut.db.claim_one(spec.claims["work"], "j", by="me")
    assert isinstance(held, Taken)
    assert held.by == "me"


def test_a_lost_renewal_can_be_asked_for_again(cut: Cut) -> None:
    """The claim is still good: its fence has not changed."""
    spec = prepared(cut.place, "warm", "j")
    warm, mine = cut.db.claim(spec.claims["work"], 2, lease=60)
    cut.db.renew(warm, 60)
    cut.lose()
    assert isinstance(cut.db.renew(mine, 60)[0], Unknown)
    (again,) = cut.db.renew(mine, 60)
    assert isinstance(again, Claim)
    assert isinstance(cut.db.move(spec.moves["finish"], again), Moved)
    assert cut.direct.claim(spec.claims["work"], 10) == []


def test_a_lost_release_has_released_and_the_second_one_harms_nobody(cut: Cut) -> None:
    """Somebody else has the row by then; the late release names an old fence."""
    spec = prepared(cut.place, "warm", "j")
    warm, mine = cut.db.claim(spec.claims["work"], 2, lease=60)
    cut.db.release(warm)
    cut.lose()
    assert isinstance(cut.db.release(mine)[0], Unknown)
    taken = {one.key: one for one in cut.direct.claim(spec.claims["work"], 10, by="next", lease=60)}
    assert isinstance(cut.db.release(mine)[0], Lost)
    assert isinstance(cut.db.fail(mine)[0], Lost)
    assert taken["j"].attempt == 1
    assert isinstance(cut.direct.release(taken["j"])[0], Released)


def test_a_lost_turn_is_unknown_and_nobody_sends_until_it_is_stale(cut: Cut) -> None:
    """Then the next one knows of the doubt, and has the same intent."""
    with beside(cut.place) as ground:
        delivery, spec = pictures(ground, True, stale=LEASE)
        ground.put(spec, "warm", "x")
    warm = cut.db.begin_delivery(delivery, "warm")
    assert isinstance(warm, SendPermit)
    cut.lose()
    assert isinstance(cut.db.begin_delivery(delivery, "a"), Unknown)
    permit = until(lambda: cut.db.begin_delivery(delivery, "a"), lambda answer: isinstance(answer, SendPermit))
    assert isinstance(permit, SendPermit)
    assert (permit.in_doubt, permit.attempt) == (True, 2)


def test_a_lost_mark_has_marked_and_nothing_is_sent_again(cut: Cut) -> None:
    """The second mark is told that it is delivered."""
    with beside(cut.place) as ground:
        delivery, spec = pictures(ground, True)
        ground.put(spec, "warm", "x")
    warm, permit = (cut.db.begin_delivery(delivery, key) for key in ("warm", "a"))
    assert isinstance(warm, SendPermit)
    assert isinstance(permit, SendPermit)
    cut.db.delivered(warm)
    cut.lose()
    assert isinstance(cut.db.delivered(permit), Unknown)
    again = cut.db.delivered(permit)
    assert isinstance(again, PermitLost)
    assert again.state == "delivered"
    assert isinstance(cut.direct.begin_delivery(delivery, "a"), SendRefused)


def test_a_lost_resolution_is_unknown_and_has_resolved(cut: Cut) -> None:
    """Asking again finds that there is nothing left to be resolved."""
    with beside(cut.place) as ground:
        delivery, spec = pictures(ground, True, policy="hold")
        ground.put(spec, "warm", "x")
    for key in ("warm", "a"):
        permit = cut.db.begin_delivery(delivery, key)
        assert isinstance(permit, SendPermit)
        cut.db.uncertain(permit)
    cut.db.resolve(delivery, "warm", arrived=False)
    cut.lose()
    assert isinstance(cut.db.resolve(delivery, "a", arrived=False), Unknown)
    again = cut.db.resolve(delivery, "a", arrived=False)
    assert isinstance(again, SendRefused)
    assert (again.state, "can be sent" in str(again)) == ("failed", True)
    assert isinstance(cut.direct.begin_delivery(delivery, "a"), SendPermit)


def test_a_lost_start_of_an_attempt_is_told_again(cut: Cut) -> None:
    """The same start is a replay; the owner has one attempt."""
    with beside(cut.place) as ground:
        attempts, login = logins(ground, history=True)
    cut.db.start_attempt(attempts, "bob", "warm")
    cut.lose("COMMIT")
    assert isinstance(cut.db.start_attempt(attempts, "ann", "a"), Unknown)
    assert cut.proxy.cuts == 1
    again = cut.db.start_attempt(attempts, "ann", "a")
    assert isinstance(again, Started)
    assert again.replayed
    assert [entry.move for entry in cut.direct.history(login, "a")] == ["attempt"]


def a_lease(cut: Cut, seconds: float) -> Lease:
    lease = Lease("bot", seconds, fresh_name("leases"))
    with beside(cut.place) as ground:
        ground.lease_table(lease.table)
    cut.db.acquire_lease(Lease("warm", 60, lease.table), "me")
    return lease


def test_a_lost_answer_makes_no_leader_and_its_epoch_is_not_used_again(cut: Cut) -> None:
    """The row says that it leads, but it does not know its epoch: it waits, and gets a newer one."""
    lease = a_lease(cut, LEASE)
    cut.lose()
    assert isinstance(cut.db.acquire_lease(lease, "me"), Unknown)
    unknown = cut.direct.lease_holder(lease).epoch
    mine = until(lambda: cut.db.acquire_lease(lease, "me"), lambda answer: isinstance(answer, LeaseGranted))
    assert isinstance(mine, LeaseGranted)
    assert mine.epoch > unknown > 0


def test_a_lost_renewal_of_a_lease_can_be_asked_for_again(cut: Cut) -> None:
    """In the same epoch, and nobody else came in between."""
    lease = a_lease(cut, 60)
    mine = cut.db.acquire_lease(lease, "me")
    assert isinstance(mine, LeaseGranted)
    cut.db.renew_lease(mine)
    cut.lose()
    assert isinstance(cut.db.renew_lease(mine), Unknown)
    again = cut.db.renew_lease(mine)
    assert isinstance(again, LeaseGranted)
    assert again.epoch == mine.epoch
    assert isinstance(cut.direct.acquire_lease(lease, "other"), LeaseHeldByOther)


def test_a_lost_step_down_has_stepped_down_and_the_second_one_harms_nobody(cut: Cut) -> None:
    """The next one leads at once; what the old one repeats carries an old epoch."""
    lease = a_lease(cut, 60)
    warm = cut.db.acquire_lease(Lease("another", 60, lease.table), "me")
    assert isinstance(warm, LeaseGranted)
    cut.db.release_lease(warm)
    mine = cut.db.acquire_lease(lease, "me")
    assert isinstance(mine, LeaseGranted)
    cut.lose()
    assert isinstance(cut.db.release_lease(mine), Unknown)
    other = cut.direct.acquire_lease(lease, "other")
    assert isinstance(other, LeaseGranted)
    assert isinstance(cut.db.release_lease(mine), LeaseHeldByOther)
    assert isinstance(cut.direct.renew_lease(other), LeaseGranted)


def test_an_event_whose_answer_was_lost_is_kept_and_a_duplicate_the_next_time(cut: Cut) -> None:
    """The sender was not answered and brings it again: it is worked on once."""
    inbox = Inbox(fresh_name("inbox"))
    with beside(cut.place) as ground:
        ground.inbox_table(inbox)
    cut.db.receive(inbox, Arrival("t", "warm", b"{}"))
    cut.lose()
    with pytest.raises(BROKEN):
        cut.db.receive(inbox, Arrival("t", "1", b"{}"))
    assert cut.proxy.cuts == 1
    assert cut.db.receive(inbox, Arrival("t", "1", b"{}")).duplicate
    assert sorted(one.key[1] for one in cut.direct.claim(inbox.work, 10)) == ["1", "warm"]
