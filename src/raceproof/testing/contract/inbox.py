"""What the inbox promises on every store (L12; P8)."""

from datetime import timedelta

import pytest

from raceproof import Inbox
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground, fresh_name


def an_inbox(ground: Ground) -> Inbox:
    inbox = Inbox(fresh_name("inbox"))
    ground.inbox_table(inbox)
    return inbox


async def test_an_event_is_kept_once_with_its_raw_bytes(ground: Ground) -> None:
    """The same id again is a duplicate; another source may use the same id."""
    inbox = an_inbox(ground)
    body = b'{"n": 1}\x00\xff'
    first = await ground.db.receive(inbox, Arrival("telegram", "1", body, {"x-kind": "a"}), now=NOON)
    again = await ground.db.receive(inbox, Arrival("telegram", "1", b"other"), now=after(1))
    other = await ground.db.receive(inbox, Arrival("kie", "1", b"other"), now=after(1))
    assert [one.duplicate for one in (first, again, other)] == [False, True, False]
    claims = await ground.db.claim(inbox.work, 10, returning=["body", "source"], now=after(2))
    assert [one.key for one in claims] == [("telegram", "1"), ("kie", "1")]
    kept = claims[0].row["body"]
    assert (kept if isinstance(kept, str) else bytes(kept)) in (body, body.decode(errors="backslashreplace"))


async def test_an_event_is_worked_on_once(ground: Ground) -> None:
    """Also if it arrives again after its end."""
    inbox = an_inbox(ground)
    await ground.db.receive(inbox, Arrival("telegram", "1", b"{}"), now=NOON)
    (mine,) = await ground.db.claim(inbox.work, now=NOON)
    assert (await ground.db.move(inbox.finish, mine)).won
    assert (await ground.db.receive(inbox, Arrival("telegram", "1", b"{}"), now=after(5))).duplicate
    assert await ground.db.claim(inbox.work, now=after(1000)) == []


async def test_events_of_one_user_are_worked_on_in_order_and_of_many_at_once(ground: Ground) -> None:
    """By ordering key; an event without one waits for no other."""
    inbox = an_inbox(ground)
    arrivals = [
        Arrival("t", f"{n}", b"{}", {}, user) for n, user in enumerate(["ann", "ann", "bob", None, None, "ann"])
    ]
    told = await ground.db.receive_many(inbox, arrivals, now=NOON)
    assert [one.duplicate for one in told] == [False] * 6
    seen = []
    for step in range(4):
        claims = await ground.db.claim(inbox.work, 10, now=after(step + 1))
        seen.append([one.key[1] for one in claims])
        await ground.db.move_many(inbox.finish, claims)
    assert seen == [["0", "2", "3", "4"], ["1"], ["5"], []]


async def test_an_event_that_always_fails_is_dead_letter_and_lets_the_next_one_through(ground: Ground) -> None:
    """After its last attempt it is dead, and no longer in the way."""
    inbox = Inbox(fresh_name("inbox"), attempts=2)
    ground.inbox_table(inbox)
    for number in (1, 2):
        await ground.db.receive(inbox, Arrival("t", str(number), b"{}", {}, "ann"), now=NOON)
    for attempt in (0, 1):
        (mine,) = await ground.db.claim(inbox.work, 10, now=after(attempt * 10 + 1))
        assert mine.key == ("t", "1")
        await ground.db.fail(mine, reason="no", now=after(attempt * 10 + 1))
    (following,) = await ground.db.claim(inbox.work, 10, now=after(100))
    assert following.key == ("t", "2")


async def test_all_that_wait_are_counted_also_behind_others(ground: Ground) -> None:
    """Every stored event that has not ended, with any ordering key or none."""
    inbox = an_inbox(ground)
    users = ["ann", "ann", "bob", None, None, "ann"]
    arrivals = [Arrival("t", f"{n}", b"{}", {}, user) for n, user in enumerate(users)]
    await ground.db.receive_many(inbox, arrivals, now=NOON)
    for left in (6, 2, 1, 0):
        counts = await ground.db.inbox_counts(inbox)
        assert sum(number for status, number, _ in counts if status not in ("done", "dead")) == left
        await ground.db.move_many(inbox.finish, await ground.db.claim(inbox.work, 10, now=after(left)))


async def test_events_of_one_user_that_come_together_keep_their_order_whatever_their_ids(ground: Ground) -> None:
    """Ids order nothing, neither as text nor as numbers."""
    inbox = an_inbox(ground)
    ids = ["9", "10", "b", "a"]
    await ground.db.receive_many(inbox, [Arrival("t", one, b"{}", {}, "ann") for one in ids], now=NOON)
    seen = []
    for step in range(4):
        claims = await ground.db.claim(inbox.work, 10, now=after(step + 1))
        seen += [one.key[1] for one in claims]
        await ground.db.move_many(inbox.finish, claims)
    assert seen == ids


async def test_an_event_that_was_revived_is_not_forgotten(ground: Ground) -> None:
    """P8: it waits again, however long ago it was dead-lettered; if it arrives again, it is a duplicate."""
    inbox = Inbox(fresh_name("inbox"), attempts=1)
    ground.inbox_table(inbox)
    await ground.db.receive(inbox, Arrival("t", "1", b"{}"), now=NOON)
    (mine,) = await ground.db.claim(inbox.work, now=NOON)
    await ground.db.fail(mine, now=NOON)
    revive = inbox.lifecycle.moves["revive"]
    assert (await ground.db.move(revive, ("t", "1"), set={"attempts": 0})).won
    later = NOON + timedelta(days=60)
    assert await ground.db.forget_events(inbox, now=later) == 0
    assert (await ground.db.receive(inbox, Arrival("t", "1", b"{}"), now=later)).duplicate


async def test_one_brought_twice_at_once_is_new_only_the_first_time(ground: Ground) -> None:
    """In one statement."""
    inbox = an_inbox(ground)
    told = await ground.db.receive_many(inbox, [Arrival("t", "1", b"a"), Arrival("t", "1", b"b")], now=NOON)
    assert [one.duplicate for one in told] == [False, True]


async def test_bad_events_are_told_before_anything_is_sent(ground: Ground) -> None:
    """A body of text, an empty id, NUL in an id, an empty ordering key."""
    inbox = an_inbox(ground)
    nameless = Arrival("t", "1", b"", ordering_key="")
    for bad in (Arrival("t", "1", "text"), Arrival("t", "", b""), Arrival("t", "a\0b", b""), nameless):  # type: ignore[arg-type]
        with pytest.raises(CallError):
            await ground.db.receive(inbox, bad)
