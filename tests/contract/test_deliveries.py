"""What a delivery promises on every store (L9; P5, P7, P14). No test here knows which store it runs on."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from raceproof import (
    AsyncStore,
    CallError,
    Delivery,
    Lifecycle,
    Marked,
    Missing,
    NotSent,
    NoTurn,
    Spec,
    Turn,
    TurnLost,
)
from tests.contract.grounds import Ground, RedisGround, fresh_name
from tests.contract.noon import NOON, after

BOTH = pytest.mark.parametrize("told", [False, True], ids=["two timestamps", "all columns"])


def pictures(ground: Ground, told: bool, **changes: Any) -> tuple[Delivery, Spec[str]]:
    """A delivery on a table of its own, which has only two timestamps, or every column that can tell something."""
    columns = (
        {"state": "state", "holder": "sender", "error": "send_error", "attempts": "tries"} if told else {}
    )
    table = fresh_name("pictures")
    delivery = Delivery("picture", table, **{"key": "job_id", **columns, **changes})
    # the contract's grounds make tables from lifecycles; this one is there for its columns
    moves = {
        "a": {
            "from": ["x"],
            "to": "y",
            "stamp": ["delivering_at", "delivered_at"],
            "sets": list(columns.values()),
        }
    }
    spec = Lifecycle.from_dict(
        {
            "name": "P",
            "table": table,
            "key": "job_id",
            "statuses": ["x", "y"],
            "column": "kind",
            "moves": moves,
        }
    )
    ground.table(spec, {"tries": "integer"} if told else None)
    ground.put(spec, "a", "x")
    return delivery, spec


@asynccontextmanager
async def once(ground: Ground, delivery: Delivery, key: str, probe: Any = None, **options: Any) -> Any:
    """`deliver_once` of a sync or an async store."""
    if probe is not None:
        options["probe"] = probe.asked_async if isinstance(ground.db.store, AsyncStore) else probe.asked
    block: Any = ground.db.store.deliver_once(delivery, key, **options)
    if hasattr(block, "__aenter__"):
        async with block as turn:
            yield turn
    else:
        with block as turn:
            yield turn


class Probe:
    """Asks the receiver: it arrived, it did not, or it cannot tell; or the asking itself fails."""

    def __init__(self, found: bool | BaseException | None) -> None:
        self.found = found

    def asked(self, _: Turn) -> bool | None:
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found

    async def asked_async(self, turn: Turn) -> bool | None:
        return self.asked(turn)


@BOTH
async def test_of_two_senders_one_has_the_turn_and_the_other_learns_so(ground: Ground, told: bool) -> None:
    """A callback and a poller, and one picture."""
    delivery, spec = pictures(ground, told)
    async with once(ground, delivery, "a", by="callback", now=NOON) as turn:
        assert isinstance(turn, Turn)
        assert (turn.won, turn.in_doubt, turn.attempt) == (True, False, 1 if told else None)
        async with once(ground, delivery, "a", by="poller", now=after(1)) as other:
            assert isinstance(other, NoTurn)
            assert (other.won, other.state, other.by) == (False, "sending", "callback" if told else None)
    row = ground.get(spec, "a")
    assert row["delivered_at"] is not None
    assert row["delivering_at"] is None
    late = await ground.db.take_turn(delivery, "a", now=after(1000))
    assert isinstance(late, NoTurn)
    assert late.state == "delivered"


@BOTH
async def test_a_clean_failure_frees_the_turn_for_the_next_try(ground: Ground, told: bool) -> None:
    """It was surely not sent, so nobody need wait; the idempotency key stays the same."""
    delivery, spec = pictures(ground, told)
    with pytest.raises(NotSent):
        async with once(ground, delivery, "a", now=NOON) as first:
            raise NotSent("refused by the receiver")
    if told:
        assert ground.get(spec, "a")["state"] == "failed"
        assert "refused by the receiver" in str(ground.get(spec, "a")["send_error"])
    async with once(ground, delivery, "a", now=after(1)) as second:
        assert isinstance(second, Turn)
        assert (second.intent, second.in_doubt) == (first.intent, False)
    assert ground.get(spec, "a")["delivered_at"] is not None


async def test_whatever_a_receiver_says_its_refusal_frees_the_turn(ground: Ground) -> None:
    """A text that no store takes is kept as well as it can be, and keeps nothing from being told."""
    delivery, spec = pictures(ground, True)
    with pytest.raises(NotSent):
        async with once(ground, delivery, "a", now=NOON):
            raise NotSent("400 \0 \udc80 " + "x" * 1000)
    row = ground.get(spec, "a")
    assert row["state"] == "failed"
    assert "400" in str(row["send_error"])
    turn = await ground.db.take_turn(delivery, "a", now=after(1))
    await ground.db.not_sent(turn, "\0", now=after(1))
    assert isinstance(await ground.db.take_turn(delivery, "a", now=after(2)), Turn)


@BOTH
async def test_an_unknown_end_is_tried_again_with_the_same_key(ground: Ground, told: bool) -> None:
    """Policy resend: a timeout in the send leaves the turn uncertain; the next one knows that it may have arrived."""
    delivery, _ = pictures(ground, told)
    with pytest.raises(TimeoutError):
        async with once(ground, delivery, "a", now=NOON) as first:
            raise TimeoutError
    async with once(ground, delivery, "a", now=after(301)) as second:
        assert isinstance(second, Turn)
        assert (second.in_doubt, second.intent) == (True, first.intent)


@BOTH
async def test_held_unknowns_are_never_sent_again_until_somebody_has_looked(
    ground: Ground, told: bool
) -> None:
    """Policy hold: at most once, and the unknown is shown."""
    delivery, _ = pictures(ground, told, policy="hold")
    with pytest.raises(TimeoutError):
        async with once(ground, delivery, "a", now=NOON):
            raise TimeoutError
    for later in (301, 100_000):
        held = await ground.db.take_turn(delivery, "a", now=after(later))
        assert isinstance(held, NoTurn)
        assert held.state == "uncertain"
    assert isinstance(await ground.db.resolve(delivery, "a", arrived=False, by="ops", now=after(400)), Marked)
    assert isinstance(await ground.db.take_turn(delivery, "a", now=after(401)), Turn)


@BOTH
async def test_only_what_is_in_doubt_is_resolved(ground: Ground, told: bool) -> None:
    """P7: neither what nobody has begun, nor what somebody is sending, nor what has arrived."""
    delivery, spec = pictures(ground, told, policy="hold")
    assert isinstance(await ground.db.resolve(delivery, "a", arrived=True, now=NOON), NoTurn)
    assert ground.get(spec, "a")["delivered_at"] is None
    turn = await ground.db.take_turn(delivery, "a", now=NOON)
    for arrived in (True, False):
        assert isinstance(await ground.db.resolve(delivery, "a", arrived=arrived, now=after(1)), NoTurn)
    assert isinstance(await ground.db.delivered(turn, now=after(2)), Marked)
    assert isinstance(await ground.db.resolve(delivery, "a", arrived=False, now=after(1000)), NoTurn)
    assert ground.get(spec, "a")["delivered_at"] is not None


@BOTH
async def test_what_another_program_has_delivered_is_not_sent_again(ground: Ground, told: bool) -> None:
    """P7: also where it leaves the time at which it began."""
    delivery, spec = pictures(ground, told)
    await ground.db.take_turn(delivery, "a", now=NOON)
    begun = ground.get(spec, "a")["delivering_at"]
    ground.put(spec, "b", "x", delivering_at=begun, delivered_at=begun)
    assert isinstance(await ground.db.take_turn(delivery, "b", now=after(1000)), NoTurn)
    assert isinstance(await ground.db.resolve(delivery, "b", arrived=False, now=after(1000)), NoTurn)
    assert ground.get(spec, "b")["delivered_at"] == begun


async def test_who_was_uncertain_may_still_say_that_it_arrived(ground: Ground) -> None:
    """P7: an unknown end keeps the turn, so that a late answer of the receiver can end the doubt."""
    delivery, spec = pictures(ground, True, policy="hold")
    turn = await ground.db.take_turn(delivery, "a", now=NOON)
    await ground.db.uncertain(turn, "no answer", now=after(1))
    assert isinstance(await ground.db.delivered(turn, now=after(2)), Marked)
    assert ground.get(spec, "a")["state"] == "delivered"


@BOTH
async def test_a_probe_is_asked_before_an_unknown_one_is_sent_again(ground: Ground, told: bool) -> None:
    """It arrived: nothing is sent. It did not: it is sent. It cannot tell: it stays uncertain."""
    for found, expected in ((True, "delivered"), (None, "uncertain"), (False, "sent")):
        delivery, spec = pictures(ground, told, policy="probe")
        with pytest.raises(TimeoutError):
            async with once(ground, delivery, "a", probe=Probe(None), now=NOON):
                raise TimeoutError
        sent = False
        async with once(ground, delivery, "a", probe=Probe(found), now=after(301)) as turn:
            sent = turn.won
        assert sent == (expected == "sent")
        assert (ground.get(spec, "a")["delivered_at"] is not None) == (expected != "uncertain")
        if expected == "uncertain":
            assert isinstance(turn, NoTurn)
            assert turn.state == "uncertain"


@BOTH
async def test_a_late_sender_can_mark_nothing(ground: Ground, told: bool) -> None:
    """P5: the slow first sender neither completes nor frees the turn of the second."""
    delivery, spec = pictures(ground, told)
    late = await ground.db.take_turn(delivery, "a", by="late", now=NOON)
    current = await ground.db.take_turn(delivery, "a", by="next", now=after(301))
    assert isinstance(current, Turn)
    for answer in (
        await ground.db.delivered(late, now=after(302)),
        await ground.db.not_sent(late, now=after(302)),
        await ground.db.sending(late, now=after(302)),
    ):
        assert isinstance(answer, TurnLost)
        assert answer.state == "sending"
    assert ground.get(spec, "a")["delivered_at"] is None
    assert isinstance(await ground.db.delivered(current, now=after(303)), Marked)
    assert isinstance(await ground.db.not_sent(current, now=after(304)), TurnLost)


async def test_a_turn_taken_after_the_clock_went_back_has_a_later_fence(ground: Ground) -> None:
    """P4: the one before, whose end nobody knows, can mark nothing."""
    delivery, _ = pictures(ground, True)
    late = await ground.db.take_turn(delivery, "a", now=NOON)
    await ground.db.uncertain(late, now=NOON)
    current = await ground.db.take_turn(delivery, "a", now=after(-10))
    assert str(current.fence) > str(late.fence)
    assert isinstance(await ground.db.delivered(late, now=after(1)), TurnLost)


def test_each_delivery_of_each_row_has_an_idempotency_key_of_its_own() -> None:
    """P7: or a receiver that remembers them would take one for the repetition of another."""
    one = Delivery("picture", "jobs")
    of_shops = replace(one, tenant="shop")
    found = {
        one.intent("a"),
        one.intent("b"),
        replace(one, name="receipt").intent("a"),
        replace(one, table="orders").intent("a"),
        of_shops.intent("a", "red"),
        of_shops.intent("a", "blue"),
    }
    assert len(found) == 6
    assert one.intent("a") == Delivery("picture", "jobs").intent("a")


async def test_a_crash_before_the_send_is_known_to_be_one(ground: Ground) -> None:
    """Reserved is not sending: after the stale time it may be sent, even in mode hold, and it is not in doubt."""
    delivery, _ = pictures(ground, True, policy="hold")
    turn = await ground.db.take_turn(delivery, "a", reserve=True, now=NOON)
    assert isinstance(await ground.db.take_turn(delivery, "a", now=after(10)), NoTurn)
    again = await ground.db.take_turn(delivery, "a", reserve=True, now=after(301))
    assert isinstance(again, Turn)
    assert again.in_doubt is False
    assert isinstance(await ground.db.sending(turn, now=after(302)), TurnLost)
    sending = await ground.db.sending(again, now=after(302))
    assert isinstance(sending, Turn)
    assert isinstance(await ground.db.delivered(sending, now=after(303)), Marked)


@pytest.mark.parametrize("policy", ["resend", "probe"])
async def test_the_doubt_about_a_try_outlives_a_turn_that_was_only_reserved(
    ground: Ground, policy: Any
) -> None:
    """P7: who reserves has sent nothing, but the one before may have; so the third one is in doubt as the second was."""
    delivery, spec = pictures(ground, True, policy=policy)
    first = await ground.db.take_turn(delivery, "a", now=NOON)
    await ground.db.uncertain(first, "no answer", now=NOON)
    second = await ground.db.take_turn(delivery, "a", reserve=True, now=after(1))
    assert (second.in_doubt, second.state, ground.get(spec, "a")["state"]) == (True, "sending", "sending")
    waiting = await ground.db.take_turn(delivery, "a", now=after(2))
    assert isinstance(waiting, NoTurn)
    third = await ground.db.take_turn(delivery, "a", reserve=True, now=after(302))
    assert isinstance(third, Turn)
    assert third.in_doubt
    assert isinstance(await ground.db.delivered(third, now=after(303)), Marked)


@pytest.mark.parametrize("policy", ["resend", "probe"])
async def test_a_clean_failure_does_not_end_the_doubt_about_the_try_before(
    ground: Ground, policy: Any
) -> None:
    """P7: this one was surely not sent, that one nobody knows of; the next may follow at once, and knows it."""
    delivery, spec = pictures(ground, True, policy=policy)
    first = await ground.db.take_turn(delivery, "a", now=NOON)
    await ground.db.uncertain(first, "no answer", now=NOON)
    second = await ground.db.take_turn(delivery, "a", now=after(1))
    ended = await ground.db.not_sent(await ground.db.sending(second, now=after(2)), "refused", now=after(2))
    assert isinstance(ended, Marked)
    assert (ended.state, ground.get(spec, "a")["send_error"]) == ("uncertain", "refused")
    third = await ground.db.take_turn(delivery, "a", now=after(3))
    assert isinstance(third, Turn)
    assert third.in_doubt


async def test_with_two_timestamps_a_probe_is_asked_again_after_the_stale_time(ground: Ground) -> None:
    """They cannot tell a clean failure from an unknown end: so the row stays as it is, and is in doubt later."""
    delivery, spec = pictures(ground, False, policy="probe")
    await ground.db.take_turn(delivery, "a", now=NOON)
    second = await ground.db.take_turn(delivery, "a", now=after(301))
    assert second.in_doubt
    await ground.db.not_sent(second, now=after(302))
    assert ground.get(spec, "a")["delivering_at"] is not None
    third = await ground.db.take_turn(delivery, "a", now=after(602))
    assert isinstance(third, Turn)
    assert third.in_doubt


@BOTH
async def test_who_resends_need_not_wait_after_a_clean_failure(ground: Ground, told: bool) -> None:
    """A failure clears the lock, whoever had it before."""
    delivery, _ = pictures(ground, told)
    await ground.db.take_turn(delivery, "a", now=NOON)
    second = await ground.db.take_turn(delivery, "a", now=after(301))
    await ground.db.not_sent(second, now=after(302))
    assert isinstance(await ground.db.take_turn(delivery, "a", now=after(303)), Turn)


@BOTH
@pytest.mark.parametrize("reserve", [False, True])
async def test_a_probe_that_fails_leaves_the_delivery_uncertain(
    ground: Ground, told: bool, reserve: bool
) -> None:
    """It is asked again before anything is sent, and its word settles the doubt."""
    delivery, spec = pictures(ground, told, policy="probe")
    options = {"reserve": True} if reserve and told else {}
    await ground.db.take_turn(delivery, "a", now=NOON)
    for number, broken in enumerate((ConnectionError("is down"), asyncio.CancelledError(), NotSent("?"))):
        with pytest.raises(type(broken)):
            async with once(
                ground, delivery, "a", probe=Probe(broken), now=after(301 * (number + 1)), **options
            ):
                raise AssertionError("nothing is sent")
        if told:
            assert ground.get(spec, "a")["state"] == "uncertain"
    with pytest.raises(NotSent):
        async with once(ground, delivery, "a", probe=Probe(False), now=after(2000), **options) as turn:
            raise NotSent("refused")
    assert (turn.won, turn.in_doubt) == (True, False)
    later = await ground.db.take_turn(delivery, "a", now=after(2001))
    assert isinstance(later, Turn)
    assert not later.in_doubt


@pytest.mark.parametrize("policy", ["resend", "hold", "probe"])
@pytest.mark.parametrize("state", [None, "ready"])
async def test_a_row_that_was_begun_before_it_had_a_state_is_in_doubt(
    ground: Ground, policy: Any, state: str | None
) -> None:
    """P7: somebody took the turn and is gone, and no word says that nothing was sent."""
    delivery, spec = pictures(ground, True, policy=policy)
    for key in ("old", "other"):
        ground.put(spec, key, "x", state=state)
        assert isinstance(await ground.db.take_turn(replace(delivery, state=None), key, now=NOON), Turn)
    assert ground.get(spec, "old")["state"] == state
    assert isinstance(await ground.db.take_turn(delivery, "old", now=after(299)), NoTurn)
    answer = await ground.db.take_turn(delivery, "old", now=after(301))
    if policy == "hold":
        assert isinstance(answer, NoTurn)
        assert answer.state == "uncertain"
    else:
        assert isinstance(answer, Turn)
        assert answer.in_doubt
    assert isinstance(await ground.db.resolve(delivery, "other", arrived=True, now=after(301)), Marked)
    assert ground.get(spec, "other")["state"] == "delivered"


async def test_a_long_send_renews_its_turn(ground: Ground) -> None:
    """The turn that comes back is the same one with a new fence; whoever has the old one means it too."""
    delivery, _ = pictures(ground, False)
    turn = await ground.db.take_turn(delivery, "a", now=NOON)
    renewed = await ground.db.sending(turn, now=after(200))
    assert isinstance(await ground.db.take_turn(delivery, "a", now=after(400)), NoTurn)
    assert turn.latest is renewed
    assert isinstance(await ground.db.delivered(turn, now=after(401)), Marked)
    assert isinstance(await ground.db.delivered(renewed, now=after(401)), TurnLost)


@pytest.mark.parametrize("policy", ["resend", "hold"])
async def test_a_block_that_says_when_it_sends_ends_as_delivered(
    ground: Ground, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """`sending` gives the turn a new fence, and the end of the block is marked with that one."""
    delivery, spec = pictures(ground, True, policy=policy)
    async with once(ground, delivery, "a", reserve=True, now=NOON) as turn:
        await ground.db.sending(turn, now=after(1))
        await ground.db.sending(turn, now=after(2))
    assert ground.get(spec, "a")["state"] == "delivered"
    assert isinstance(await ground.db.take_turn(delivery, "a", now=after(1000)), NoTurn)
    assert not caplog.records


async def test_a_send_that_cannot_be_marked_is_warned_of(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """It was sent, and somebody else has the turn by now: not an error of this sender, but somebody should know."""
    delivery, _ = pictures(ground, True)
    async with once(ground, delivery, "a", now=NOON):
        assert isinstance(await ground.db.take_turn(delivery, "a", now=after(301)), Turn)
    assert "could not be marked" in caplog.text


async def test_a_cancelled_send_is_uncertain(ground: Ground) -> None:
    """P14: nobody knows what the receiver got."""
    delivery, spec = pictures(ground, True)
    with pytest.raises(asyncio.CancelledError):
        async with once(ground, delivery, "a", now=NOON):
            raise asyncio.CancelledError
    assert ground.get(spec, "a")["state"] == "uncertain"


async def test_a_probe_may_keep_its_turn_alive_and_what_it_says_counts_for_the_newest(ground: Ground) -> None:
    """A long look at the receiver begins the turn anew; after it, the send can be marked."""
    delivery, spec = pictures(ground, True, policy="probe")
    await ground.db.take_turn(delivery, "a", now=NOON)

    class Renewing(Probe):
        async def asked_async(self, turn: Turn) -> bool | None:
            await ground.db.sending(turn, now=after(310))
            return False

        def asked(self, turn: Turn) -> bool | None:
            store: Any = ground.db.store
            store.sending(turn, now=after(310))
            return False

    async with once(ground, delivery, "a", Renewing(False), by="me", now=after(301)) as turn:
        assert (turn.won, turn.in_doubt) == (True, False)
    assert ground.get(spec, "a")["state"] == "delivered"


@pytest.mark.parametrize("found", [True, False, None])
async def test_who_was_replaced_while_it_asked_is_told_so(ground: Ground, found: bool | None) -> None:
    """Whatever the receiver says, it is not this one's turn any more, and it does not send."""
    delivery, spec = pictures(ground, True, policy="probe")
    await ground.db.take_turn(delivery, "a", now=NOON)

    class Replaced(Probe):
        async def asked_async(self, turn: Turn) -> bool | None:
            await ground.db.take_turn(delivery, "a", by="second", now=after(1000))
            return found

        def asked(self, turn: Turn) -> bool | None:
            store: Any = ground.db.store
            store.take_turn(delivery, "a", by="second", now=after(1000))
            return found

    async with once(ground, delivery, "a", Replaced(None), by="first", now=after(301)) as turn:
        assert isinstance(turn, NoTurn)
        assert turn.by == "second"
    row = ground.get(spec, "a")
    assert (row["state"], row["sender"]) == ("sending", "second")


async def test_a_probe_that_says_neither_yes_nor_no_is_an_error(ground: Ground) -> None:
    """Something that is only true by chance does not count as having arrived."""
    delivery, spec = pictures(ground, True, policy="probe")
    await ground.db.take_turn(delivery, "a", now=NOON)
    said: Any = {"arrived": False}
    with pytest.raises(CallError, match="True, False or None"):
        async with once(ground, delivery, "a", Probe(said), now=after(301)):
            raise AssertionError("it is not sent")
    assert (ground.get(spec, "a")["state"], ground.get(spec, "a")["delivered_at"]) == ("uncertain", None)


async def test_rows_that_are_not_there_and_calls_that_cannot_be(ground: Ground) -> None:
    """Errors of the call come before anything is sent."""
    delivery, _ = pictures(ground, False)
    assert isinstance(await ground.db.take_turn(delivery, "nobody", now=NOON), Missing)
    with pytest.raises(CallError, match="needs a state= column"):
        await ground.db.take_turn(delivery, "a", reserve=True)
    with pytest.raises(CallError, match="give probe="):
        async with once(ground, replace(delivery, policy="probe"), "a"):
            pass
    with pytest.raises(CallError, match="not a turn"):
        await ground.db.delivered(await ground.db.take_turn(delivery, "nobody"))


@BOTH
async def test_those_under_way_hide_none_whose_end_nobody_knows(ground: Ground, told: bool) -> None:
    """However few are asked for: with `uncertain=True` the others do not count."""
    delivery, spec = pictures(ground, told, stale=60)
    if isinstance(ground, RedisGround):
        with pytest.raises(CallError, match="cannot search"):
            await ground.db.deliveries(delivery, uncertain=True)
        return
    for key in ("b", "c"):
        ground.put(spec, key, "x")
    await ground.db.take_turn(delivery, "a", by="sender", now=NOON)
    await ground.db.take_turn(delivery, "b", reserve=told, now=after(-1000 if told else 1))
    turn = await ground.db.take_turn(delivery, "c", by="sender", now=after(2))
    await ground.db.uncertain(turn, "timeout", now=after(3))
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
        turn = await ground.db.for_tenant(shop).take_turn(delivery, f"{shop} job")
        await ground.db.for_tenant(shop).uncertain(turn)
    if isinstance(ground, RedisGround):
        with pytest.raises(CallError, match="cannot search"):
            await ground.db.for_tenant("red").deliveries(delivery)
        return
    for shop in ("red", "blue"):
        found = await ground.db.for_tenant(shop).deliveries(delivery)
        assert [one.key for one in found] == [f"{shop} job"]


@BOTH
async def test_the_fence_of_a_turn_grows_also_when_the_clock_goes_back(ground: Ground, told: bool) -> None:
    """P4: the store's clock was set back while it was sent."""
    delivery, _ = pictures(ground, told)
    before = await ground.db.take_turn(delivery, "a", now=NOON)
    sending = await ground.db.sending(before, now=after(-10))
    assert isinstance(sending, Turn)
    assert str(sending.fence) > str(before.fence)
    assert isinstance(await ground.db.delivered(sending, now=after(-9)), Marked)
