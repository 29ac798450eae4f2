"""What a delivery promises on every store after a send whose outcome is unknown (L9; P7, P14)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from raceproof import DeliveryRecorded, PermitLost, SendPermit, SendRefused
from raceproof.deliveries import NotSent
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.pictures import BOTH, Probe, once, pictures


@BOTH
async def test_an_unknown_end_is_tried_again_with_the_same_key(ground: Ground, told: bool) -> None:
    """Policy resend: a timeout leaves the delivery uncertain; the next sender knows that it may have arrived."""
    delivery, _ = pictures(ground, told)
    with pytest.raises(TimeoutError):
        async with once(ground, delivery, "a", now=NOON) as first:
            raise TimeoutError
    async with once(ground, delivery, "a", now=after(301)) as second:
        assert isinstance(second, SendPermit)
        assert (second.in_doubt, second.idempotency_key) == (True, first.idempotency_key)


@BOTH
async def test_held_unknowns_are_never_sent_again_until_somebody_has_looked(ground: Ground, told: bool) -> None:
    """Policy hold: at most one send, and the delivery is listed as uncertain."""
    delivery, _ = pictures(ground, told, policy="hold")
    with pytest.raises(TimeoutError):
        async with once(ground, delivery, "a", now=NOON):
            raise TimeoutError
    for later in (301, 100_000):
        held = await ground.db.begin_delivery(delivery, "a", now=after(later))
        assert isinstance(held, SendRefused)
        assert held.state == "uncertain"
    assert isinstance(await ground.db.resolve(delivery, "a", arrived=False, by="ops", now=after(400)), DeliveryRecorded)
    assert isinstance(await ground.db.begin_delivery(delivery, "a", now=after(401)), SendPermit)


@BOTH
async def test_only_what_is_in_doubt_is_resolved(ground: Ground, told: bool) -> None:
    """P7: not one that no process began, one that is being sent, or one that has arrived."""
    delivery, spec = pictures(ground, told, policy="hold")
    assert isinstance(await ground.db.resolve(delivery, "a", arrived=True, now=NOON), SendRefused)
    assert ground.get(spec, "a")["delivered_at"] is None
    permit = await ground.db.begin_delivery(delivery, "a", now=NOON)
    for arrived in (True, False):
        assert isinstance(await ground.db.resolve(delivery, "a", arrived=arrived, now=after(1)), SendRefused)
    assert isinstance(await ground.db.delivered(permit, now=after(2)), DeliveryRecorded)
    assert isinstance(await ground.db.resolve(delivery, "a", arrived=False, now=after(1000)), SendRefused)
    assert ground.get(spec, "a")["delivered_at"] is not None


async def test_who_was_uncertain_may_still_say_that_it_arrived(ground: Ground) -> None:
    """P7: an unknown outcome keeps the permit, so that a late answer of the receiver can settle it."""
    delivery, spec = pictures(ground, True, policy="hold")
    permit = await ground.db.begin_delivery(delivery, "a", now=NOON)
    await ground.db.uncertain(permit, "no answer", now=after(1))
    assert isinstance(await ground.db.delivered(permit, now=after(2)), DeliveryRecorded)
    assert ground.get(spec, "a")["state"] == "delivered"


@BOTH
async def test_a_probe_is_asked_before_an_unknown_one_is_sent_again(ground: Ground, told: bool) -> None:
    """Arrived: nothing is sent. Not arrived: it is sent. Cannot tell: it stays uncertain."""
    for found, expected in ((True, "delivered"), (None, "uncertain"), (False, "sent")):
        delivery, spec = pictures(ground, told, policy="probe")
        with pytest.raises(TimeoutError):
            async with once(ground, delivery, "a", probe=Probe(None), now=NOON):
                raise TimeoutError
        sent = False
        async with once(ground, delivery, "a", probe=Probe(found), now=after(301)) as permit:
            sent = permit.won
        assert sent == (expected == "sent")
        assert (ground.get(spec, "a")["delivered_at"] is not None) == (expected != "uncertain")
        if expected == "uncertain":
            assert isinstance(permit, SendRefused)
            assert permit.state == "uncertain"


async def test_a_crash_before_the_send_is_known_to_be_one(ground: Ground) -> None:
    """A reservation is not a send: after the stale time it may be sent, even with policy hold, and is not in doubt."""
    delivery, _ = pictures(ground, True, policy="hold")
    permit = await ground.db.begin_delivery(delivery, "a", reserve=True, now=NOON)
    assert isinstance(await ground.db.begin_delivery(delivery, "a", now=after(10)), SendRefused)
    again = await ground.db.begin_delivery(delivery, "a", reserve=True, now=after(301))
    assert isinstance(again, SendPermit)
    assert again.in_doubt is False
    assert isinstance(await ground.db.sending(permit, now=after(302)), PermitLost)
    sending = await ground.db.sending(again, now=after(302))
    assert isinstance(sending, SendPermit)
    assert isinstance(await ground.db.delivered(sending, now=after(303)), DeliveryRecorded)


@pytest.mark.parametrize("policy", ["resend", "probe"])
async def test_the_doubt_about_a_try_outlives_a_turn_that_was_only_reserved(ground: Ground, policy: Any) -> None:
    """P7: a reservation sent nothing, but the sender before it may have; so the third is in doubt like the second."""
    delivery, spec = pictures(ground, True, policy=policy)
    first = await ground.db.begin_delivery(delivery, "a", now=NOON)
    await ground.db.uncertain(first, "no answer", now=NOON)
    second = await ground.db.begin_delivery(delivery, "a", reserve=True, now=after(1))
    assert (second.in_doubt, second.state, ground.get(spec, "a")["state"]) == (True, "sending", "sending")
    waiting = await ground.db.begin_delivery(delivery, "a", now=after(2))
    assert isinstance(waiting, SendRefused)
    third = await ground.db.begin_delivery(delivery, "a", reserve=True, now=after(302))
    assert isinstance(third, SendPermit)
    assert third.in_doubt
    assert isinstance(await ground.db.delivered(third, now=after(303)), DeliveryRecorded)


@pytest.mark.parametrize("policy", ["resend", "probe"])
async def test_a_clean_failure_does_not_end_the_doubt_about_the_try_before(ground: Ground, policy: Any) -> None:
    """P7: this send failed for sure, the earlier one is unknown; the next may follow at once, and knows it."""
    delivery, spec = pictures(ground, True, policy=policy)
    first = await ground.db.begin_delivery(delivery, "a", now=NOON)
    await ground.db.uncertain(first, "no answer", now=NOON)
    second = await ground.db.begin_delivery(delivery, "a", now=after(1))
    ended = await ground.db.not_sent(await ground.db.sending(second, now=after(2)), "refused", now=after(2))
    assert isinstance(ended, DeliveryRecorded)
    assert (ended.state, ground.get(spec, "a")["send_error"]) == ("uncertain", "refused")
    third = await ground.db.begin_delivery(delivery, "a", now=after(3))
    assert isinstance(third, SendPermit)
    assert third.in_doubt


async def test_with_two_timestamps_a_probe_is_asked_again_after_the_stale_time(ground: Ground) -> None:
    """Without a state column a clean failure looks like an unknown outcome: the row stays, and is in doubt later."""
    delivery, spec = pictures(ground, False, policy="probe")
    await ground.db.begin_delivery(delivery, "a", now=NOON)
    second = await ground.db.begin_delivery(delivery, "a", now=after(301))
    assert second.in_doubt
    await ground.db.not_sent(second, now=after(302))
    assert ground.get(spec, "a")["delivering_at"] is not None
    third = await ground.db.begin_delivery(delivery, "a", now=after(602))
    assert isinstance(third, SendPermit)
    assert third.in_doubt


@BOTH
async def test_who_resends_need_not_wait_after_a_clean_failure(ground: Ground, told: bool) -> None:
    """A failure clears the lock, whichever process held it before."""
    delivery, _ = pictures(ground, told)
    await ground.db.begin_delivery(delivery, "a", now=NOON)
    second = await ground.db.begin_delivery(delivery, "a", now=after(301))
    await ground.db.not_sent(second, now=after(302))
    assert isinstance(await ground.db.begin_delivery(delivery, "a", now=after(303)), SendPermit)


@BOTH
@pytest.mark.parametrize("reserve", [False, True])
async def test_a_probe_that_fails_leaves_the_delivery_uncertain(ground: Ground, told: bool, reserve: bool) -> None:
    """The receiver is asked again before anything is sent, and its answer settles the doubt."""
    delivery, spec = pictures(ground, told, policy="probe")
    options = {"reserve": True} if reserve and told else {}
    await ground.db.begin_delivery(delivery, "a", now=NOON)
    for number, broken in enumerate((ConnectionError("is down"), asyncio.CancelledError(), NotSent("?"))):
        with pytest.raises(type(broken)):
            async with once(ground, delivery, "a", probe=Probe(broken), now=after(301 * (number + 1)), **options):
                raise AssertionError("nothing is sent")
        if told:
            assert ground.get(spec, "a")["state"] == "uncertain"
    with pytest.raises(NotSent):
        async with once(ground, delivery, "a", probe=Probe(False), now=after(2000), **options) as permit:
            raise NotSent("refused")
    assert (permit.won, permit.in_doubt) == (True, False)
    later = await ground.db.begin_delivery(delivery, "a", now=after(2001))
    assert isinstance(later, SendPermit)
    assert not later.in_doubt


@pytest.mark.parametrize("policy", ["resend", "hold", "probe"])
@pytest.mark.parametrize("state", [None, "ready"])
async def test_a_row_that_was_begun_before_it_had_a_state_is_in_doubt(
    ground: Ground, policy: Any, state: str | None
) -> None:
    """P7: a process began and died, and nothing says that it sent nothing."""
    delivery, spec = pictures(ground, True, policy=policy)
    for key in ("old", "other"):
        ground.put(spec, key, "x", state=state)
        assert isinstance(await ground.db.begin_delivery(replace(delivery, state=None), key, now=NOON), SendPermit)
    assert ground.get(spec, "old")["state"] == state
    assert isinstance(await ground.db.begin_delivery(delivery, "old", now=after(299)), SendRefused)
    answer = await ground.db.begin_delivery(delivery, "old", now=after(301))
    if policy == "hold":
        assert isinstance(answer, SendRefused)
        assert answer.state == "uncertain"
    else:
        assert isinstance(answer, SendPermit)
        assert answer.in_doubt
    assert isinstance(await ground.db.resolve(delivery, "other", arrived=True, now=after(301)), DeliveryRecorded)
    assert ground.get(spec, "other")["state"] == "delivered"


async def test_a_cancelled_send_is_uncertain(ground: Ground) -> None:
    """P14: what the receiver got is unknown."""
    delivery, spec = pictures(ground, True)
    with pytest.raises(asyncio.CancelledError):
        async with once(ground, delivery, "a", now=NOON):
            raise asyncio.CancelledError
    assert ground.get(spec, "a")["state"] == "uncertain"


async def test_a_probe_may_keep_its_turn_alive_and_what_it_says_counts_for_the_newest(ground: Ground) -> None:
    """A slow question to the receiver renews the permit; after it, the send can be recorded."""
    delivery, spec = pictures(ground, True, policy="probe")
    await ground.db.begin_delivery(delivery, "a", now=NOON)

    class Renewing(Probe):
        async def asked_async(self, permit: SendPermit) -> bool | None:
            await ground.db.sending(permit, now=after(310))
            return False

        def asked(self, permit: SendPermit) -> bool | None:
            store: Any = ground.db.store
            store.sending(permit, now=after(310))
            return False

    async with once(ground, delivery, "a", Renewing(False), by="me", now=after(301)) as permit:
        assert (permit.won, permit.in_doubt) == (True, False)
    assert ground.get(spec, "a")["state"] == "delivered"


@pytest.mark.parametrize("found", [True, False, None])
async def test_who_was_replaced_while_it_asked_is_told_so(ground: Ground, found: bool | None) -> None:
    """Whatever the receiver says, this process has lost the permit and does not send."""
    delivery, spec = pictures(ground, True, policy="probe")
    await ground.db.begin_delivery(delivery, "a", now=NOON)

    class Replaced(Probe):
        async def asked_async(self, permit: SendPermit) -> bool | None:
            await ground.db.begin_delivery(delivery, "a", by="second", now=after(1000))
            return found

        def asked(self, permit: SendPermit) -> bool | None:
            store: Any = ground.db.store
            store.begin_delivery(delivery, "a", by="second", now=after(1000))
            return found

    async with once(ground, delivery, "a", Replaced(None), by="first", now=after(301)) as permit:
        assert isinstance(permit, SendRefused)
        assert permit.by == "second"
    row = ground.get(spec, "a")
    assert (row["state"], row["sender"]) == ("sending", "second")


async def test_a_probe_that_says_neither_yes_nor_no_is_an_error(ground: Ground) -> None:
    """A value that merely counts as true does not mean that it arrived."""
    delivery, spec = pictures(ground, True, policy="probe")
    await ground.db.begin_delivery(delivery, "a", now=NOON)
    said: Any = {"arrived": False}
    with pytest.raises(CallError, match="True, False or None"):
        async with once(ground, delivery, "a", Probe(said), now=after(301)):
            raise AssertionError("it is not sent")
    assert (ground.get(spec, "a")["state"], ground.get(spec, "a")["delivered_at"]) == ("uncertain", None)
