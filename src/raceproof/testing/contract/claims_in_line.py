"""Rows with the same ordering key run one after the other, whatever is in the columns that sort them (L8)."""

import pytest

from raceproof import Claim, Inbox
from raceproof.declare import Spec
from raceproof.inbox import Arrival
from raceproof.testing.contract.clock import NOON
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.jobs import jobs


async def in_order(ground: Ground, job: Spec[str]) -> list[str]:
    """Claim and finish all rows, and return their order: never two at once, and by key only the held one."""
    work, found = job.claims["work"], []
    while claims := await ground.db.claim(work, 10, now=NOON):
        (mine,) = claims
        assert await ground.db.claim(work, 10, now=NOON) == []
        assert (await ground.db.move(job.moves["finish"], mine)).won
        found.append(mine.key)
    return found


async def test_a_row_that_has_no_place_in_the_order_waits_as_the_others_do(ground: Ground) -> None:
    """NULL sorts before or after all values, as the store decides."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    places = {"a": None, "b": 5, "c": None, "d": 4}
    for key, place in places.items():
        ground.put(job, key, "QUEUED", made_at=place, owner="ann")
        await ground.db.offer(job.claims["work"], [key])
    assert sorted(await in_order(ground, job)) == sorted(places)


async def in_line(ground: Ground, job: Spec[str], *keys: str, tenant: str | None = None) -> None:
    """Insert rows of one owner, and offer them one after the other."""
    db = ground.db.for_tenant(tenant) if tenant else ground.db
    for number, key in enumerate(keys):
        ground.put(job, (tenant, key) if tenant else key, "QUEUED", made_at=number, owner="ann")
        await db.offer(job.claims["work"], [key])


@pytest.mark.parametrize("gone", [["a"], ["b"], ["a", "b"], ["b", "a"]], ids="".join)
async def test_rows_that_are_gone_hold_up_nobody_behind_them(ground: Ground, gone: list[str]) -> None:
    """P13: the first row of its key was deleted, or a later one; the next can be claimed at once, then those behind."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    await in_line(ground, job, *"abcd")
    for key in gone:
        ground.remove(job, key)
    assert await in_order(ground, job) == [key for key in "abcd" if key not in gone]


async def test_a_row_that_ended_and_is_gone_holds_up_nobody_behind_it(ground: Ground) -> None:
    """An operator ended it by key, and it was deleted before any claim looked at it."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    await in_line(ground, job, *"abc")
    assert (await ground.db.move(job.moves["give_up"], "a")).won
    ground.remove(job, "a")
    assert await in_order(ground, job) == ["b", "c"]


async def test_by_its_key_a_row_can_be_claimed_when_those_before_it_are_gone(ground: Ground) -> None:
    """P13: no row before it is left to work on."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    await in_line(ground, job, *"abcd")
    ground.remove(job, "a")
    assert (await ground.db.move(job.moves["give_up"], "b")).won
    assert isinstance(await ground.db.claim_one(job.claims["work"], "c", now=NOON), Claim)
    assert await ground.db.claim(job.claims["work"], 5, now=NOON) == []


async def test_a_row_of_no_line_is_claimed_by_its_key(ground: Ground) -> None:
    """It has no ordering key, so it waits for no other row."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    ground.put(job, "a", "QUEUED", made_at=1)
    mine = await ground.db.claim_one(job.claims["work"], "a", now=NOON)
    assert isinstance(mine, Claim)
    assert (await ground.db.move(job.moves["finish"], mine)).won


async def test_an_event_that_is_gone_holds_up_no_event_behind_it(ground: Ground) -> None:
    """P13: neither events already there nor later ones."""
    inbox = Inbox(fresh_name("inbox"))
    ground.inbox_table(inbox)
    await ground.db.receive_many(inbox, [Arrival("t", key, b"{}", {}, "ann") for key in "abc"], now=NOON)
    ground.remove(inbox.lifecycle, ("t", "a"))
    (second,) = await ground.db.claim(inbox.work, 5, now=NOON)
    await ground.db.receive(inbox, Arrival("t", "d", b"{}", {}, "ann"), now=NOON)
    assert (await ground.db.move(inbox.finish, second)).won
    ground.remove(inbox.lifecycle, ("t", "c"))
    (last,) = await ground.db.claim(inbox.work, 5, now=NOON)
    assert [second.key[1], last.key[1]] == ["b", "d"]


async def test_the_lines_of_two_tenants_are_two(ground: Ground) -> None:
    """L3: the same ordering key of another tenant holds nothing up, by search or by key."""
    job = jobs(ground, tenant="shop", claim={"ordering_key": "owner"})
    for shop in ("red", "blue", "green"):
        await in_line(ground, job, "a", "b", tenant=shop)
    (mine,) = await ground.db.for_tenant("blue").claim(job.claims["work"], 5, now=NOON)
    assert (mine.key, mine.tenant) == ("a", "blue")
    assert isinstance(await ground.db.for_tenant("green").claim_one(job.claims["work"], "a", now=NOON), Claim)
    assert (await ground.db.for_tenant("blue").move(job.moves["finish"], mine)).won
    (following,) = await ground.db.for_tenant("blue").claim(job.claims["work"], 5, now=NOON)
    assert (following.key, following.tenant) == ("b", "blue")
    assert ground.get(job, ("red", "a"))["status"] == "QUEUED"
