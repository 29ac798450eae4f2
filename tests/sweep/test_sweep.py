"""What a sweep does on every store, sync and async, in small steps, and what it leaves alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from raceproof import Arrival, AsyncStore, Attempts, CallError, Inbox, Lifecycle, Spec, Started
from raceproof.sweep import Swept, asweep, sweep
from tests.contract.grounds import Ground, RedisGround, fresh_name
from tests.contract.jobs import FORMS, jobs

NOON = datetime(2030, 1, 2, 12, 0, 0, 250_000, tzinfo=UTC)
DAY = 86400.0


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


async def swept(ground: Ground, *targets: Any, **options: Any) -> dict[str, int]:
    """The numbers by the kind of work, from a sync or an async store."""
    store = ground.db.store
    if isinstance(store, AsyncStore):
        found = await asweep(store, *targets, **options)
    else:
        found = sweep(store, *targets, **options)
    return {one.work: one.number for one in found}


async def put(ground: Ground, spec: Spec[str], *keys: str, **columns: Any) -> None:
    for number, key in enumerate(keys):
        ground.put(spec, key, "QUEUED", **{"made_at": number, **columns})


async def test_rows_that_are_out_of_attempts_are_set_aside_in_batches(ground: Ground) -> None:
    """Rows that are held, or have attempts left, stay."""
    job = jobs(ground, history=True)
    await put(ground, job, "a", "b", "c", attempts=3)
    await put(ground, job, "held", "fine", attempts=2)
    work = job.claims["work"]
    await ground.db.offer(work, ["a", "b", "c", "held", "fine"])
    await ground.db.claim_one(work, "held", by="ann", now=NOON)
    dry = await swept(ground, work, dry_run=True, now=after(1))
    assert dry["set aside"] == 3
    assert ground.get(job, "a")["status"] == "QUEUED"
    found = await swept(ground, work, batch=2, by="cron", now=after(1))
    assert found["set aside"] == 3
    assert [ground.get(job, key)["status"] for key in ("a", "b", "c", "fine")] == ["DEAD"] * 3 + ["QUEUED"]
    entry = (await ground.db.history(job, "a"))[0]
    assert (entry.move, entry.actor) == ("give_up", "cron")
    assert (await swept(ground, job, now=after(1)))["set aside"] == 0


@pytest.mark.parametrize("form", FORMS)
async def test_a_row_on_its_last_attempt_is_not_set_aside_while_it_is_held(ground: Ground, form: str) -> None:
    """In every form of a claim; and is afterwards."""
    job = jobs(ground, form)
    work = job.claims["work"]
    await put(ground, job, "a", attempts=2)
    await ground.db.offer(work, ["a"])
    await ground.db.claim_one(work, "a", by="ann", now=NOON)
    for moment, number in ((after(29), 0), (after(31), 1)):
        assert (await swept(ground, job, dry_run=True, now=moment))["set aside"] == number
        assert (await swept(ground, job, now=moment))["set aside"] == number


async def test_a_tenant_sweeps_its_own_rows_and_its_own_history(ground: Ground) -> None:
    """Those of others stay as they are."""
    job = jobs(ground, history=True, tenant="shop", claim={"order_by": None})
    work = job.claims["work"]
    for shop in ("acme", "acme:2"):
        ground.put(job, (shop, "a"), "QUEUED", attempts=3)
        ground.put(job, (shop, "b"), "QUEUED", attempts=0)
        db = ground.db.for_tenant(shop)
        await db.offer(work, ["a", "b"])
        await db.move(job.moves["start"], "b", now=NOON)
    mine = ground.db.for_tenant("acme").store
    options: Any = {"keep": 3600.0, "now": datetime.now(UTC) + timedelta(days=2000)}
    found = (
        await asweep(mine, job, **options) if isinstance(mine, AsyncStore) else sweep(mine, job, **options)
    )
    assert {one.work: one.number for one in found}["set aside"] == 1
    assert [ground.get(job, (shop, "a"))["status"] for shop in ("acme", "acme:2")] == ["DEAD", "QUEUED"]
    assert [len(await ground.db.for_tenant(shop).history(job, "b")) for shop in ("acme", "acme:2")] == [0, 1]


async def test_rows_whose_lease_is_over_are_counted_and_left(ground: Ground) -> None:
    """The next claim takes them by itself."""
    job = jobs(ground)
    await put(ground, job, "a", "b")
    work = job.claims["work"]
    for key in ("a", "b"):
        await ground.db.claim_one(work, key, by="ann", now=NOON if key == "a" else after(60))
    assert (await swept(ground, job, now=after(61)))["stale, left"] == 1
    assert ground.get(job, "a")["status"] == "RUNNING"


def logins(ground: Ground, expire: bool = True) -> tuple[Attempts, Spec[str]]:
    spec = Lifecycle.from_dict(
        {
            "name": "Login",
            "table": fresh_name("logins"),
            "key": "login_id",
            "statuses": ["pending", "scanned", "done", "superseded", "expired"],
            "moves": {
                "scan": {"from": ["pending"], "to": "scanned"},
                "finish": {"from": ["scanned"], "to": "done", "stamp": ["began_at"]},
                "expire": {"from": ["pending"], "to": "expired"},
                "supersede": {"from": ["pending", "scanned"], "to": "superseded"},
            },
        }
    )
    ground.table(spec, {"owner": "text"})
    move = spec.moves["expire"] if expire else None
    made = Attempts(
        spec, owner="owner", supersede=spec.moves["supersede"], started="began_at", ttl=900, expire=move
    )
    return made, spec


async def test_attempts_whose_time_is_over_are_ended(ground: Ground) -> None:
    """Those that the move does not lead from are looked past, and counted; on Redis a key ends by itself."""
    attempts, login = logins(ground)
    for number in range(5):
        begun = await ground.db.start_attempt(attempts, f"u{number}", f"l{number}", now=NOON)
        assert isinstance(begun, Started)
    await ground.db.start_attempt(attempts, "late", "fresh", now=after(900))
    for key in ("l0", "l1"):
        await ground.db.move(login.moves["scan"], key)
    dry = await swept(ground, attempts, dry_run=True, now=after(901))
    found = await swept(ground, attempts, batch=1, now=after(901))
    if isinstance(ground, RedisGround):
        assert (dry, found) == ({"expired": 0}, {"expired": 0})
        return
    assert dry == {"expired": 5}
    assert found == {"expired": 3, "expired, left": 2}
    states = [ground.get(login, key)["status"] for key in ("l0", "l2", "l3", "l4", "fresh")]
    assert states == ["scanned", "expired", "expired", "expired", "pending"]


async def test_without_a_move_overdue_attempts_are_only_counted(ground: Ground) -> None:
    """Nobody has said where they should go."""
    attempts, login = logins(ground, expire=False)
    await ground.db.start_attempt(attempts, "ann", "a", now=NOON)
    found = await swept(ground, attempts, now=after(901))
    assert found == {"expired, left": 0 if isinstance(ground, RedisGround) else 1}
    assert ground.get(login, "a")["status"] == "pending"


async def test_old_events_are_forgotten_in_batches(ground: Ground) -> None:
    """Until none is left that ended long ago; on Redis they end by themselves."""
    inbox = Inbox(fresh_name("inbox"), keep=10 * DAY)
    ground.inbox_table(inbox)
    for number in range(5):
        await ground.db.receive(inbox, Arrival("t", str(number), b"{}"), now=NOON)
    claims = await ground.db.claim(inbox.work, 4, now=NOON)
    await ground.db.move_many(inbox.finish, claims, now=NOON)
    dry = await swept(ground, inbox, dry_run=True, now=after(11 * DAY))
    early = await swept(ground, inbox, now=after(9 * DAY))
    found = await swept(ground, inbox, batch=3, now=after(11 * DAY))
    if not isinstance(ground, RedisGround):
        assert (dry["forgotten"], early["forgotten"], found["forgotten"]) == (4, 0, 4)
        assert [row[0] for row in await ground.db.inbox_counts(inbox)] == ["received"]


async def test_old_history_is_deleted_and_only_that_of_the_lifecycle(ground: Ground) -> None:
    """In pages, and only when it is asked for. The streams of Redis go by the server's clock."""
    job = jobs(ground, history=True)
    data = {**job.to_dict(), "name": "Other", "table": fresh_name("others")}
    other = Lifecycle.from_dict(data)
    ground.table(other, {"made_at": "integer"})
    keys = [f"k{number}" for number in range(5)]
    for spec in (job, other):
        await put(ground, spec, *keys, "new")
        for key in keys:
            await ground.db.move(spec.moves["start"], key, now=NOON)
    await ground.db.move(job.moves["start"], "new", now=after(10 * DAY))
    then = after(11 * DAY)
    if isinstance(ground, RedisGround):
        then = datetime.now(UTC) + timedelta(days=5)
    assert "history" not in await swept(ground, job, now=then)
    dry = await swept(ground, job, keep=5 * DAY - 3600, dry_run=True, now=then)
    found = await swept(ground, job, keep=5 * DAY - 3600, batch=2, now=then)
    assert dry["history"] == found["history"]
    assert (await swept(ground, job, keep=5 * DAY - 3600, now=then))["history"] == 0
    assert await ground.db.history(job, "k1") == []
    assert len(await ground.db.history(other, "k1")) == 1
    if not isinstance(ground, RedisGround):
        assert found["history"] == 5
        assert len(await ground.db.history(job, "new")) == 1


async def test_rows_that_no_claim_would_find_are_offered_again(ground: Ground) -> None:
    """On Redis, where a row waits in an index; elsewhere there is nothing that could be missing."""
    job = jobs(ground)
    work = job.claims["work"]
    await put(ground, job, "lost", "also lost")
    ground.put(job, "ended", "DONE")
    ground.put(job, "there", "QUEUED")
    await ground.db.offer(work, ["there"])
    dry = await swept(ground, work, dry_run=True)
    found = await swept(ground, work)
    if isinstance(ground, RedisGround):
        assert (dry["offered"], found["offered"]) == (2, 2)
        assert (await swept(ground, work))["offered"] == 0
    claims = await ground.db.claim(work, 10)
    assert {one.key for one in claims} == {"lost", "also lost", "there"}


async def test_a_row_behind_another_of_its_line_is_not_lost(ground: Ground) -> None:
    """Of a line only the first is in the index; all of them are offered if the line is gone."""
    job = jobs(ground, claim={"serial": "owner"})
    work = job.claims["work"]
    for number, key in enumerate(("a", "b", "c")):
        ground.put(job, key, "QUEUED", made_at=number, owner="ann")
    await ground.db.offer(work, ["a", "b"])
    found = await swept(ground, work)
    if isinstance(ground, RedisGround):
        assert found["offered"] == 1
        assert (await swept(ground, work))["offered"] == 0
    assert [one.key for one in await ground.db.claim(work, 10)] == ["a"]


async def test_every_step_is_told(ground: Ground) -> None:
    """For a progress bar: the number so far."""
    job = jobs(ground)
    await put(ground, job, "a", "b", "c", attempts=3)
    await ground.db.offer(job.claims["work"], ["a", "b", "c"])
    told: list[Swept] = []
    await swept(ground, job, batch=2, tell=told.append)
    assert [one.number for one in told if one.work == "set aside"] == [2, 3, 3]


async def test_a_sweep_of_nothing_is_refused(ground: Ground) -> None:
    """A batch of no rows would never end, and no time to keep would delete everything."""
    job = jobs(ground)
    for options in ({"batch": 0}, {"keep": 0.0}, {"keep": -1.0}):
        with pytest.raises(CallError):
            await swept(ground, job, **options)
