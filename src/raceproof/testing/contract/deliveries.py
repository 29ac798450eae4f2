"""What a delivery promises on every store (L9; P4, P5, P14): at most one process may send at a time."""

from dataclasses import replace
from typing import Any

import pytest

from raceproof import Delivery, DeliveryRecorded, Lifecycle, Missing, PermitLost, SendPermit, SendRefused
from raceproof.deliveries import NotSent
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.pictures import BOTH, once, pictures


@BOTH
async def test_of_two_senders_one_has_the_turn_and_the_other_learns_so(ground: Ground, told: bool) -> None:
    """A callback and a poller race for one picture."""
    delivery, spec = pictures(ground, told)
    async with once(ground, delivery, "a", by="callback", now=NOON) as permit:
        assert isinstance(permit, SendPermit)
        assert (permit.won, permit.in_doubt, permit.attempt) == (True, False, 1 if told else None)
        async with once(ground, delivery, "a", by="poller", now=after(1)) as other:
            assert isinstance(other, SendRefused)
            assert (other.won, other.state, other.by) == (False, "sending", "callback" if told else None)
    row = ground.get(spec, "a")
    assert row["delivered_at"] is not None
    assert row["delivering_at"] is None
    late = await ground.db.begin_delivery(delivery, "a", now=after(1000))
    assert isinstance(late, SendRefused)
    assert late.state == "delivered"


@BOTH
async def test_a_clean_failure_frees_the_turn_for_the_next_try(ground: Ground, told: bool) -> None:
    """Nothing was sent, so no sender needs to wait; the idempotency key stays the same."""
    delivery, spec = pictures(ground, told)
    with pytest.raises(NotSent):
        async with once(ground, delivery, "a", now=NOON) as first:
            raise NotSent("refused by the receiver")
    if told:
        assert ground.get(spec, "a")["state"] == "failed"
        assert "refused by the receiver" in str(ground.get(spec, "a")["send_error"])
    async with once(ground, delivery, "a", now=after(1)) as second:
        assert isinstance(second, SendPermit)
        assert (second.idempotency_key, second.in_doubt) == (first.idempotency_key, False)
    assert ground.get(spec, "a")["delivered_at"] is not None


async def test_whatever_a_receiver_says_its_refusal_frees_the_turn(ground: Ground) -> None:
    """A text that the store cannot take is stored as well as possible, and does not hide the refusal."""
    delivery, spec = pictures(ground, True)
    with pytest.raises(NotSent):
        async with once(ground, delivery, "a", now=NOON):
            raise NotSent("400 \0 \udc80 " + "x" * 1000)
    row = ground.get(spec, "a")
    assert row["state"] == "failed"
    assert "400" in str(row["send_error"])
    permit = await ground.db.begin_delivery(delivery, "a", now=after(1))
    await ground.db.not_sent(permit, "\0", now=after(1))
    assert isinstance(await ground.db.begin_delivery(delivery, "a", now=after(2)), SendPermit)


@BOTH
async def test_what_another_program_has_delivered_is_not_sent_again(ground: Ground, told: bool) -> None:
    """P7: also if the row still has the time of the earlier begin."""
    delivery, spec = pictures(ground, told)
    await ground.db.begin_delivery(delivery, "a", now=NOON)
    begun = ground.get(spec, "a")["delivering_at"]
    ground.put(spec, "b", "x", delivering_at=begun, delivered_at=begun)
    assert isinstance(await ground.db.begin_delivery(delivery, "b", now=after(1000)), SendRefused)
    assert isinstance(await ground.db.resolve(delivery, "b", arrived=False, now=after(1000)), SendRefused)
    assert ground.get(spec, "b")["delivered_at"] == begun


@BOTH
async def test_a_late_sender_can_mark_nothing(ground: Ground, told: bool) -> None:
    """P5: the slow first sender can neither complete nor free the second sender's permit."""
    delivery, spec = pictures(ground, told)
    late = await ground.db.begin_delivery(delivery, "a", by="late", now=NOON)
    current = await ground.db.begin_delivery(delivery, "a", by="next", now=after(301))
    assert isinstance(current, SendPermit)
    for answer in (
        await ground.db.delivered(late, now=after(302)),
        await ground.db.not_sent(late, now=after(302)),
        await ground.db.sending(late, now=after(302)),
    ):
        assert isinstance(answer, PermitLost)
        assert answer.state == "sending"
    assert ground.get(spec, "a")["delivered_at"] is None
    assert isinstance(await ground.db.delivered(current, now=after(303)), DeliveryRecorded)
    assert isinstance(await ground.db.not_sent(current, now=after(304)), PermitLost)


async def test_a_turn_taken_after_the_clock_went_back_has_a_later_fence(ground: Ground) -> None:
    """P4: an earlier sender, whose outcome is unknown, cannot record anything."""
    delivery, _ = pictures(ground, True)
    late = await ground.db.begin_delivery(delivery, "a", now=NOON)
    await ground.db.uncertain(late, now=NOON)
    current = await ground.db.begin_delivery(delivery, "a", now=after(-10))
    assert str(current.fence) > str(late.fence)
    assert isinstance(await ground.db.delivered(late, now=after(1)), PermitLost)


def test_each_delivery_of_each_row_has_an_idempotency_key_of_its_own() -> None:
    """P7: otherwise a receiver that remembers keys would take one send for a repetition of another."""
    one = Delivery("picture", "jobs")
    of_shops = replace(one, tenant="shop")
    found = {
        one.idempotency_key("a"),
        one.idempotency_key("b"),
        replace(one, name="receipt").idempotency_key("a"),
        replace(one, table="orders").idempotency_key("a"),
        of_shops.idempotency_key("a", "red"),
        of_shops.idempotency_key("a", "blue"),
    }
    assert len(found) == 6
    assert one.idempotency_key("a") == Delivery("picture", "jobs").idempotency_key("a")


async def test_a_long_send_renews_its_turn(ground: Ground) -> None:
    """The new permit is the same turn with a new fence; the old permit still names it."""
    delivery, _ = pictures(ground, False)
    permit = await ground.db.begin_delivery(delivery, "a", now=NOON)
    renewed = await ground.db.sending(permit, now=after(200))
    assert isinstance(await ground.db.begin_delivery(delivery, "a", now=after(400)), SendRefused)
    assert permit.latest is renewed
    assert isinstance(await ground.db.delivered(permit, now=after(401)), DeliveryRecorded)
    assert isinstance(await ground.db.delivered(renewed, now=after(401)), PermitLost)


@pytest.mark.parametrize("policy", ["resend", "hold"])
async def test_a_block_that_says_when_it_sends_ends_as_delivered(
    ground: Ground, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """`sending` gives the permit a new fence, and the end of the block uses it."""
    delivery, spec = pictures(ground, True, policy=policy)
    async with once(ground, delivery, "a", reserve=True, now=NOON) as permit:
        await ground.db.sending(permit, now=after(1))
        await ground.db.sending(permit, now=after(2))
    assert ground.get(spec, "a")["state"] == "delivered"
    assert isinstance(await ground.db.begin_delivery(delivery, "a", now=after(1000)), SendRefused)
    assert not caplog.records


async def test_a_send_that_cannot_be_marked_is_warned_of(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """It was sent, and another process holds the permit by now: no error, but a warning."""
    delivery, _ = pictures(ground, True)
    async with once(ground, delivery, "a", now=NOON):
        assert isinstance(await ground.db.begin_delivery(delivery, "a", now=after(301)), SendPermit)
    assert "could not be marked" in caplog.text


async def test_rows_that_are_not_there_and_calls_that_cannot_be(ground: Ground) -> None:
    """Errors of the call are raised before anything is sent."""
    delivery, _ = pictures(ground, False)
    assert isinstance(await ground.db.begin_delivery(delivery, "nobody", now=NOON), Missing)
    with pytest.raises(CallError, match="needs a state= column"):
        await ground.db.begin_delivery(delivery, "a", reserve=True)
    with pytest.raises(CallError, match="give probe="):
        async with once(ground, replace(delivery, policy="probe"), "a"):
            pass
    with pytest.raises(CallError, match="not a permit"):
        await ground.db.delivered(await ground.db.begin_delivery(delivery, "nobody"))


@BOTH
async def test_those_under_way_hide_none_whose_end_nobody_knows(ground: Ground, told: bool) -> None:
    """However low the limit: with `uncertain=True` the others do not count."""
    delivery, spec = pictures(ground, told, stale=60)
    if not ground.searches:
        with pytest.raises(CallError, match="cannot search"):
            await ground.db.deliveries(delivery, uncertain=True)
        return
    for key in ("b", "c"):
        ground.put(spec, key, "x")
    await ground.db.begin_delivery(delivery, "a", by="sender", now=NOON)
    await ground.db.begin_delivery(delivery, "b", reserve=told, now=after(-1000 if told else 1))
    permit = await ground.db.begin_delivery(delivery, "c", by="sender", now=after(2))
    await ground.db.uncertain(permit, "timeout", now=after(3))
    found = await ground.db.deliveries(delivery, 1, after(4), uncertain=True)
    assert [one.key for one in found] == (["c"] if told else [])
    assert [one.key for one in await ground.db.deliveries(delivery, 1, after(4))] == ["b" if told else "a"]
    late = await ground.db.deliveries(delivery, 10, after(100), uncertain=True)
    assert [(one.key, one.state) for one in late] == [
        (key, "uncertain") for key in (("a", "c") if told else ("a", "b", "c"))
    ]


async def test_those_of_other_tenants_are_not_told(ground: Ground) -> None:
    """Under way or uncertain: each tenant sees its own."""
    table = fresh_name("pictures")
    delivery = Delivery("picture", table, key="job_id", state="state", tenant="shop")
    stamped = {"from": ["x"], "to": "y", "stamp": ["delivering_at", "delivered_at"], "sets": ["state"]}
    spec = Lifecycle.from_dict(
        {
            "name": "P",
            "table": table,
            "key": "job_id",
            "tenant": "shop",
            "statuses": ["x", "y"],
            "column": "kind",
            "moves": {"a": stamped},
        }
    )
    ground.table(spec)
    for shop in ("red", "blue"):
        ground.put(spec, (shop, f"{shop} job"), "x")
        permit = await ground.db.for_tenant(shop).begin_delivery(delivery, f"{shop} job")
        await ground.db.for_tenant(shop).uncertain(permit)
    if not ground.searches:
        with pytest.raises(CallError, match="cannot search"):
            await ground.db.for_tenant("red").deliveries(delivery)
        return
    for shop in ("red", "blue"):
        found = await ground.db.for_tenant(shop).deliveries(delivery)
        assert [one.key for one in found] == [f"{shop} job"]


@BOTH
async def test_the_fence_of_a_turn_grows_also_when_the_clock_goes_back(ground: Ground, told: bool) -> None:
    """P4: the store's clock was set back during the send."""
    delivery, _ = pictures(ground, told)
    before = await ground.db.begin_delivery(delivery, "a", now=NOON)
    sending = await ground.db.sending(before, now=after(-10))
    assert isinstance(sending, SendPermit)
    assert str(sending.fence) > str(before.fence)
    assert isinstance(await ground.db.delivered(sending, now=after(-9)), DeliveryRecorded)
