"""What a sweep does on every store, sync and async, in small steps, and what it leaves alone."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from raceproof import AsyncStore, Attempts, Inbox, Lifecycle, Started, Store, bind
from raceproof.declare import Spec
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Statement, reading
from raceproof.ops.sweep import Swept, spent_rows, sweep
from raceproof.testing import ValkeyServer
from raceproof.testing.contract.claims_dead_letter import impatient, two_ways
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Caller, Ground, RedisGround, fresh_name
from raceproof.testing.contract.jobs import FORMS, jobs

DAY = 86400.0


async def swept(ground: Ground, *targets: Any, **options: Any) -> dict[str, int]:
    """The numbers by the kind of work, from a sync or an async store."""
    return await swept_on(ground.db.store, *targets, **options)


async def swept_on(store: Store | AsyncStore, *targets: Any, **options: Any) -> dict[str, int]:
    """The same for a store of one tenant."""
    if isinstance(store, AsyncStore):
        found = await sweep(store, *targets, **options)
    else:
        found = sweep(store, *targets, **options)
    return {one.work: one.number for one in found}


async def put(ground: Ground, spec: Spec[str], *keys: str, **columns: Any) -> None:
    for number, key in enumerate(keys):
        ground.put(spec, key, "QUEUED", **{"made_at": number, **columns})


async def test_rows_that_are_out_of_attempts_are_dead_letter_in_batches(ground: Ground) -> None:
    """Rows that are held, or have attempts left, stay."""
    job = jobs(ground, history=True)
    await put(ground, job, "a", "b", "c", attempts=3)
    await put(ground, job, "held", "fine", attempts=2)
    work = job.claims["work"]
    await ground.db.offer(work, ["a", "b", "c", "held", "fine"])
    await ground.db.claim_one(work, "held", by="ann", now=NOON)
    dry = await swept(ground, work, dry_run=True, now=after(1))
    assert dry["dead-lettered"] == 3
    assert ground.get(job, "a")["status"] == "QUEUED"
    found = await swept(ground, work, batch=2, by="cron", now=after(1))
    assert found["dead-lettered"] == 3
    assert [ground.get(job, key)["status"] for key in ("a", "b", "c", "fine")] == ["DEAD"] * 3 + ["QUEUED"]
    entry = (await ground.db.history(job, "a"))[0]
    assert (entry.move, entry.actor) == ("give_up", "cron")
    assert (await swept(ground, job, now=after(1)))["dead-lettered"] == 0


@pytest.mark.parametrize("form", FORMS)
async def test_a_row_on_its_last_attempt_is_not_dead_letter_while_it_is_held(ground: Ground, form: str) -> None:
    """In every form of a claim; and is afterwards."""
    job = jobs(ground, form)
    work = job.claims["work"]
    await put(ground, job, "a", attempts=2)
    await ground.db.offer(work, ["a"])
    await ground.db.claim_one(work, "a", by="ann", now=NOON)
    for moment, number in ((after(29), 0), (after(31), 1)):
        assert (await swept(ground, job, dry_run=True, now=moment))["dead-lettered"] == number
        assert (await swept(ground, job, now=moment))["dead-lettered"] == number


@pytest.mark.parametrize("form", FORMS)
async def test_a_row_that_is_held_by_another_claim_is_not_dead_lettered(ground: Ground, form: str) -> None:
    """The second claim was offered the row too, and has not heard that it is on its last attempt."""
    job = two_ways(jobs(ground, form))
    work, other = job.claims["work"], job.claims["other"]
    await put(ground, job, "a", attempts=2)
    await ground.db.offer(work, ["a"])
    await ground.db.offer(other, ["a"])
    await ground.db.claim_one(work, "a", by="ann", now=NOON)
    for moment, number in ((after(29), 0), (after(31), 1)):
        assert (await swept(ground, other, now=moment))["dead-lettered"] == number
    assert ground.get(job, "a")["status"] == "DEAD"


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
    found = await sweep(mine, job, **options) if isinstance(mine, AsyncStore) else sweep(mine, job, **options)
    assert {one.work: one.number for one in found}["dead-lettered"] == 1
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


def logins(ground: Ground, expire: bool = True, **declared: Any) -> tuple[Attempts, Spec[str]]:
    spec = Lifecycle.from_dict(
        {
            **declared,
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
    made = Attempts(spec, owner="owner", supersede=spec.moves["supersede"], started="began_at", ttl=900, expire=move)
    return made, spec


async def test_attempts_whose_time_is_over_are_ended(ground: Ground) -> None:
    """Those that the move does not lead from are looked past, and counted; on Redis a key ends by itself."""
    attempts, login = logins(ground, expires=[900, 3600])
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


async def test_overdue_attempts_of_other_tenants_hide_none_of_ours(ground: Ground) -> None:
    """However many of theirs there are, and however few are looked at at once; theirs stay."""
    attempts, login = logins(ground, tenant="shop")
    blue = ground.db.for_tenant("blue")
    for number in range(3):
        await ground.db.for_tenant("red").start_attempt(attempts, f"u{number}", f"l{number}", now=NOON)
    await blue.start_attempt(attempts, "u0", "l0", now=NOON)
    found = await swept_on(blue.store, attempts, batch=2, now=after(901))
    ended = "pending" if isinstance(ground, RedisGround) else "expired"
    assert found == ({"not looked at": 0} if isinstance(ground, RedisGround) else {"expired": 1})
    assert [ground.get(login, (shop, "l0"))["status"] for shop in ("blue", "red")] == [ended, "pending"]


async def test_without_a_move_overdue_attempts_are_only_counted(ground: Ground) -> None:
    """Nobody has said where they should go."""
    attempts, login = logins(ground, expire=False)
    await ground.db.start_attempt(attempts, "ann", "a", now=NOON)
    found = await swept(ground, attempts, now=after(901))
    assert found == ({"not looked at": 0} if isinstance(ground, RedisGround) else {"expired, left": 1})
    assert ground.get(login, "a")["status"] == "pending"


@pytest.mark.parametrize("expire", [True, False])
async def test_what_cannot_be_looked_at_is_not_said_to_be_none(ground: Ground, expire: bool) -> None:
    """Redis has no query for overdue attempts: where their keys do not end by themselves, no number is told."""
    attempts, _ = logins(ground, expire)
    await ground.db.start_attempt(attempts, "ann", "a", now=NOON)
    for dry_run in (True, False):
        found = await swept(ground, attempts, dry_run=dry_run, now=after(901))
        assert (set(found) == {"not looked at"}) == isinstance(ground, RedisGround)
    kept, _ = logins(ground, expire, expires=[900, 3600])
    assert "not looked at" not in await swept(ground, kept, now=after(901))


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
    job = jobs(ground, claim={"ordering_key": "owner"})
    work = job.claims["work"]
    for number, key in enumerate(("a", "b", "c")):
        ground.put(job, key, "QUEUED", made_at=number, owner="ann")
    await ground.db.offer(work, ["a", "b"])
    found = await swept(ground, work)
    if isinstance(ground, RedisGround):
        assert found["offered"] == 1
        assert (await swept(ground, work))["offered"] == 0
    assert [one.key for one in await ground.db.claim(work, 10)] == ["a"]


async def test_a_line_goes_on_when_its_first_row_is_gone(ground: Ground) -> None:
    """Somebody has deleted it, and a sweep comes before the next claim."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    work = job.claims["work"]
    for number, key in enumerate(("a", "b", "c")):
        ground.put(job, key, "QUEUED", made_at=number, owner="ann")
    await ground.db.offer(work, ["a", "b", "c"])
    ground.remove(job, "a")
    await swept(ground, work)
    assert [one.key for one in await ground.db.claim(work, 10)] == ["b"]
    assert await ground.db.claim(work, 10) == []


def test_a_line_that_empties_while_it_is_looked_at_ends_no_sweep(
    valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two questions of the sweep somebody works all of it off; the sweep goes on."""
    client = redis.Redis.from_url(valkey_server.url, decode_responses=True)
    db = bind(client)
    ground = RedisGround(Caller(db), client)
    job = jobs(ground, claim={"ordering_key": "owner"})
    work = job.claims["work"]
    for number, key in enumerate(("a", "b")):
        ground.put(job, key, "QUEUED", made_at=number, owner="ann")
    db.offer(work, ["a", "b"])
    driver: Any = db.driver
    execute = driver.execute
    emptied = []

    def emptying(statement: Statement) -> Any:
        rows = execute(statement)
        if statement.text == "ZRANK":
            emptied.append(client.delete(statement.params[0]))
        return rows

    monkeypatch.setattr(driver, "execute", emptying)
    found = {one.work: one.number for one in sweep(db, work)}
    assert emptied == [1]
    assert found["offered"] == 1
    client.close()


async def test_every_step_is_told(ground: Ground) -> None:
    """For a progress bar: the number so far."""
    job = jobs(ground)
    await put(ground, job, "a", "b", "c", attempts=3)
    await ground.db.offer(job.claims["work"], ["a", "b", "c"])
    told: list[Swept] = []
    await swept(ground, job, batch=2, tell=told.append)
    assert [one.number for one in told if one.work == "dead-lettered"] == [2, 3, 3]


async def test_a_sweep_of_nothing_is_refused(ground: Ground) -> None:
    """A batch of no rows would never end, and no time to keep would delete everything."""
    job = jobs(ground)
    for options in ({"batch": 0}, {"keep": 0.0}, {"keep": -1.0}, {"keep": math.inf}, {"keep": math.nan}):
        with pytest.raises(CallError):
            await swept(ground, job, **options)


async def test_a_misspelt_option_is_refused_before_anything_is_swept(ground: Ground) -> None:
    """`dryrun=True` must not be a real sweep."""
    job = jobs(ground)
    await put(ground, job, "a", attempts=3)
    await ground.db.offer(job.claims["work"], ["a"])
    with pytest.raises(
        CallError, match=r"unknown option dryrun of sweep; expected keep, batch, dry_run, by, now, tell"
    ):
        await swept(ground, job, dryrun=True, now=after(1))
    assert ground.get(job, "a")["status"] == "QUEUED"


async def spent_on(ground: Ground, work: Any, now: datetime) -> set[str]:
    """The rows that `raceproof stuck` would name."""
    store = ground.db.store
    if isinstance(store, AsyncStore):
        found = await store.run(reading(spent_rows(store, work, now=now)))
    else:
        found = store.run(reading(spent_rows(store, work, now=now)))
    return {one.key for one in found}


@pytest.mark.parametrize("form", FORMS)
async def test_what_a_guard_keeps_back_is_not_named_as_out_of_attempts(ground: Ground, form: str) -> None:
    """By the claim's own `where` or by its move's: a sweep leaves it."""
    job = jobs(ground, form, claim={"where": [["owner", "=", "ann"]]})
    work = job.claims["work"]
    await put(ground, job, "mine", owner="ann", attempts=3)
    await put(ground, job, "theirs", owner="bob", attempts=3)
    await put(ground, job, "nobody's", attempts=3)
    await ground.db.offer(work, ["mine", "theirs", "nobody's"])
    assert await spent_on(ground, work, NOON) == {"mine"}
    assert (await swept(ground, work, dry_run=True, now=NOON))["dead-lettered"] == 1
    assert (await swept(ground, work, now=NOON))["dead-lettered"] == 1
    assert ground.get(job, "theirs")["status"] == "QUEUED"


async def test_what_rests_is_not_named_as_out_of_attempts(ground: Ground) -> None:
    """Until its time has come; then it is, by who allows fewer attempts, and a sweep sets it aside."""
    job = jobs(ground)
    await put(ground, job, "a")
    await ground.db.offer(job.claims["work"], ["a"])
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    await ground.db.fail(mine, delay=600, now=NOON)
    work = impatient(job).claims["work"]
    for moment, named in ((after(599), set[str]()), (after(601), {"a"})):
        assert await spent_on(ground, work, moment) == named
        assert (await swept(ground, work, dry_run=True, now=moment))["dead-lettered"] == len(named)
        assert (await swept(ground, work, now=moment))["dead-lettered"] == len(named)


async def test_of_a_line_only_the_first_is_named_as_out_of_attempts(ground: Ground) -> None:
    """One that waits behind another is not, whatever its own attempts; where nobody stands before it, it is."""
    job = jobs(ground, claim={"ordering_key": "owner"})
    work = job.claims["work"]
    for number, (key, owner, attempts) in enumerate(
        [("a", "ann", 0), ("b", "ann", 3), ("c", "cid", 3), ("d", "cid", 3), ("e", None, 3), ("f", "fay", 3)]
    ):
        ground.put(job, key, "QUEUED", made_at=number, owner=owner, attempts=attempts)
    await ground.db.offer(work, ["a", "b", "c", "d", "e"])
    assert await spent_on(ground, work, NOON) == {"c", "e", "f"}
    ground.remove(job, "a")
    assert await spent_on(ground, work, NOON) == {"b", "c", "e", "f"}
