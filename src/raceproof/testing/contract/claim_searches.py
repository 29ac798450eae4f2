"""A search for work passes over rows without hiding those behind them; `claims` lists holders, however many rows wait."""

from raceproof import column
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import jobs


async def test_a_row_that_a_guard_keeps_back_hides_nobody_behind_it(ground: Ground) -> None:
    """Also among rows of other tenants, and with a limit of one."""
    job = jobs(ground, tenant="shop")
    work = job.claims["work"]
    rows = [("red", "a", 0), ("blue", "a", 9), ("red", "b", 9), ("blue", "b", 0), ("red", "c", 9)]
    for number, (shop, key, place) in enumerate(rows):
        ground.put(job, (shop, key), "QUEUED", made_at=number, owner=str(place))
        await ground.db.for_tenant(shop).offer(work, [key])
    red = ground.db.for_tenant("red")
    found = [await red.claim(work, 1, where=column("owner") == "9") for _ in range(3)]
    assert [[one.key for one in claims] for claims in found] == [["b"], ["c"], []]


async def test_a_long_row_of_such_is_passed_over(ground: Ground) -> None:
    """More rows than one read of the index returns."""
    job = jobs(ground)
    work = job.claims["work"]
    keys = [f"{number:03}" for number in range(150)]
    for number, key in enumerate(keys):
        ground.put(job, key, "QUEUED", made_at=number, owner="last" if number == 149 else "other")
    await ground.db.offer(work, keys)
    (mine,) = await ground.db.claim(work, 1, where=column("owner") == "last")
    assert mine.key == "149"


async def test_those_who_hold_rows_are_told_however_many_wait(ground: Ground) -> None:
    """Waiting rows are not in the answer, and do not count towards its limit."""
    job = jobs(ground)
    work = job.claims["work"]
    keys = [f"{number:03}" for number in range(40)]
    for number, key in enumerate(keys):
        ground.put(job, key, "QUEUED", made_at=number)
    await ground.db.offer(work, keys)
    held = [one.key for one in await ground.db.claim(work, 10, by="node-7")]
    told = await ground.db.claims(work, limit=10)
    assert sorted(one.key for one in told) == held
    assert {(one.holder, one.stale) for one in told} == {("node-7", False)}
    assert len(await ground.db.claims(work, limit=3)) == 3
