"""The loop of a leader without a clock and without a store: what it believes, and what it asks for (P10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raceproof import Lease, LeaseGranted, LeaseHeldByOther, Unknown
from raceproof.run.leader.machine import Acquire, LeaderMachine, Renew, Role, Wait

LEASE = Lease("bot", 30)


def machine() -> LeaderMachine:
    """A lease of 30 seconds, asked for every 10, believed in for 27."""
    return LeaderMachine(seconds=30, retry=10, margin=3)


def leading(asked_at: float, epoch: int = 1) -> LeaseGranted:
    """The answer to a request that was made at that time."""
    return LeaseGranted(LEASE, "me", epoch, asked_at + 30)


def led(epoch: int = 2) -> LeaseHeldByOther:
    return LeaseHeldByOther(LEASE, "other", epoch, None)


def unknown() -> "Unknown[str]":
    return Unknown("bot", LEASE, None, ConnectionError())


def test_it_asks_at_once_and_then_every_so_often() -> None:
    """Who is told that another one leads waits, and asks again."""
    one = machine()
    assert isinstance(one.step(0), Acquire)
    one.answered(1, led())
    assert one.step(1) == Wait(11)
    assert isinstance(one.step(11), Acquire)


def test_a_leader_renews_in_good_time() -> None:
    """Three times in a lease."""
    one = machine()
    mine = leading(0)
    one.answered(1, mine)
    assert one.role(1) is Role.ACTIVE
    assert one.step(1) == Wait(11)
    assert one.step(11) == Renew(mine)


def test_a_leader_with_a_wide_margin_renews_while_it_believes() -> None:
    """Who asks later is told that the lease is held, by itself, and would be passive until it is over."""
    one = LeaderMachine(seconds=30, retry=10, margin=28)
    one.answered(0, leading(0))
    step = one.step(0)
    assert isinstance(step, Wait)
    assert isinstance(one.step(step.until), Renew)


def test_who_is_in_a_hurry_asks_at_once() -> None:
    """And not once more after that; who has stepped down asks nothing."""
    one = machine()
    one.answered(0, leading(0))
    one.hurry(3)
    assert isinstance(one.step(3), Renew)
    one.answered(4, leading(3))
    assert one.step(4) == Wait(14)
    one.stop()
    one.hurry(5)
    assert isinstance(one.step(5), Wait)


def test_belief_ends_before_the_lease_by_the_clock_of_the_request() -> None:
    """The answer came late; what counts is when it was asked for."""
    one = machine()
    one.answered(20, leading(0))
    assert one.role(26.9) is Role.ACTIVE
    assert one.role(27) is Role.PASSIVE
    assert isinstance(one.step(27), Acquire)


def test_renewals_that_fail_or_hang_keep_no_belief_alive() -> None:
    """Stale belief: nothing is heard any more, so it ends when it has to, and the lease is asked for anew."""
    one = machine()
    one.answered(0, leading(0))
    for now in (11.0, 21.0):
        assert isinstance(one.step(now), Renew)
        one.failed(now)
        assert one.deadline == 27
    assert one.role(26.9) is Role.ACTIVE
    assert one.role(27) is Role.PASSIVE
    assert isinstance(one.step(31), Acquire)


@pytest.mark.parametrize("outcome", ["failed", "unknown"])
@pytest.mark.parametrize("retry", [10, 100])
def test_a_leader_that_hears_nothing_asks_again_while_it_believes(outcome: str, retry: float) -> None:
    """However rarely a passive process asks; one that leads no more asks as rarely as that."""
    one = LeaderMachine(seconds=30, retry=retry, margin=3)
    one.answered(0, leading(0))
    now, asked = 10.0, 0
    while isinstance(one.step(now), Renew):
        asked += 1
        one.answered(now, unknown()) if outcome == "unknown" else one.failed(now)
        step = one.step(now)
        assert isinstance(step, Wait)
        assert step.until - now > 2.6, "it does not ask without rest"
        now = step.until
    assert asked >= 3
    assert isinstance(one.step(now), Acquire)
    one.failed(now)
    assert one.step(now) == Wait(now + retry)


def test_a_leader_does_not_ask_more_often_than_a_passive_process_when_it_hears_nothing() -> None:
    """Who wants to ask more often says so."""
    one = LeaderMachine(seconds=30, retry=0.5, margin=3)
    one.answered(0, leading(0))
    one.failed(10)
    assert one.step(10) == Wait(10.5)


@given(st.floats(0.01, 1000), st.floats(0, 0.99), st.floats(0.01, 1000), st.floats(0, 1))
def test_one_request_that_hangs_leaves_a_leader_time_for_another(
    seconds: float, margin: float, retry: float, took: float
) -> None:
    """Whatever its times are, and however long the request took that has made it a leader."""
    one = LeaderMachine(seconds, retry, seconds * margin)
    now = took * min(one.patience(0), (seconds - seconds * margin) / 2)
    one.answered(now, LeaseGranted(LEASE, "me", 1, seconds))
    for _ in range(2):
        step = one.step(now)
        if isinstance(step, Wait):
            now = step.until
        assert isinstance(one.step(now), Renew)
        now += one.patience(now)
        one.failed(now)


def test_who_does_not_lead_has_a_third_of_the_lease_for_a_request() -> None:
    """And who leads half of the time that its belief lasts."""
    one = machine()
    assert one.patience(0) == 10
    one.answered(0, leading(0))
    assert one.patience(10) == 8.5
    assert one.patience(26.9) == 2.7
    assert one.patience(27) == 10


def test_an_unknown_answer_neither_makes_nor_keeps_a_leader() -> None:
    """The lease row is the truth, and it is asked again."""
    one = machine()
    one.answered(0, unknown())
    assert one.role(0) is Role.PASSIVE
    assert isinstance(one.step(10), Acquire)
    one.answered(10, leading(10))
    one.answered(20, unknown())
    assert one.role(36.9) is Role.ACTIVE
    assert one.role(37) is Role.PASSIVE


def test_a_stolen_lease_ends_belief_at_once() -> None:
    """Somebody took it over, by the store's word."""
    one = machine()
    one.answered(0, leading(0))
    one.answered(10, led())
    assert one.role(10) is Role.PASSIVE
    assert one.leading is None
    assert one.step(10) == Wait(20)


def test_an_answer_that_comes_after_its_own_deadline_makes_no_leader() -> None:
    """The process stood still between the request and the answer; it asks again at once."""
    one = machine()
    one.answered(40, leading(0))
    assert one.role(40) is Role.PASSIVE
    assert isinstance(one.step(40), Acquire)


def test_an_answer_of_an_older_epoch_does_not_replace_a_newer_one() -> None:
    """Late answers may overtake each other."""
    one = machine()
    newer = leading(20, epoch=5)
    one.answered(20, newer)
    one.answered(21, leading(1, epoch=4))
    assert one.leading is newer
    assert one.role(46.9) is Role.ACTIVE


def test_a_renewed_lease_is_believed_in_for_longer() -> None:
    """From the time of the renewal's request."""
    one = machine()
    one.answered(0, leading(0))
    one.answered(11, leading(10))
    assert one.role(36.9) is Role.ACTIVE
    assert one.role(37) is Role.PASSIVE


def test_who_has_stepped_down_believes_and_asks_no_more() -> None:
    """Whatever answers still come."""
    one = machine()
    mine = leading(0)
    one.answered(0, mine)
    assert one.stop() is mine
    assert one.role(1) is Role.PASSIVE
    one.answered(2, leading(1, epoch=9))
    assert one.role(2) is Role.PASSIVE
    assert isinstance(one.step(1000), Wait)
    assert machine().stop() is None


EVENTS = st.lists(
    st.tuples(
        st.floats(0, 20),
        st.sampled_from(["granted", "held by another", "unknown", "failed"]),
        st.floats(0, 40),
        st.integers(1, 4),
    ),
    max_size=20,
)


@given(EVENTS)
def test_whatever_happens_nobody_believes_without_an_answer_that_still_holds(
    events: list[tuple[float, str, float, int]],
) -> None:
    """Active means: an answer said so, its deadline less the margin is not over, and no later one denied it."""
    one = machine()
    now = 0.0
    given_deadlines: list[float] = []
    for passed, kind, took, epoch in events:
        now += passed
        assert one.role(now) is Role.PASSIVE or now < max(given_deadlines) - 3
        match kind:
            case "granted":
                answer = leading(now - took, epoch)
                given_deadlines.append(answer.deadline)
                one.answered(now, answer)
            case "held by another":
                given_deadlines.clear()
                one.answered(now, led())
                assert one.role(now) is Role.PASSIVE
            case "unknown":
                one.answered(now, unknown())
            case _:
                one.failed(now)
        step = one.step(now)
        assert isinstance(step, Wait) or isinstance(step, Renew) is (one.role(now) is Role.ACTIVE)
        assert not isinstance(step, Wait) or step.until > now
