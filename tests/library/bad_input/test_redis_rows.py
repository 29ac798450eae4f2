"""Redis keeps anything under any key: what is not a row, or not a history, is never half-written (P1, L5)."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raceproof import (
    Claim,
    Delivery,
    Lease,
    LeaseGranted,
    Lost,
    Missing,
    Moved,
    Released,
    Store,
    bind,
    column,
)
from raceproof.declare import Spec
from raceproof.kernel.errors import ScriptFailed
from raceproof.kernel.quoting import lua_literal
from raceproof.testing import ValkeyServer
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Caller, RedisGround, fresh_name
from raceproof.testing.contract.jobs import ALL_FORMS, jobs
from raceproof.testing.contract.jobs import put as put_jobs
from raceproof.testing.contract.orders import orders
from tests.fix_told import says_nothing_was_kept


@pytest.fixture
def client(valkey_server: ValkeyServer) -> Iterator["redis.Redis"]:
    """A client of the caller's."""
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as found:
        yield found


def put(client: Any, order: Spec[str], *keys: str, **fields: Any) -> None:
    for key in keys:
        client.hset(f"{order.table}:{key}", mapping={"status": "NEW", "rev": 0, **fields})


def ground_of(client: Any) -> RedisGround:
    return RedisGround(Caller(bind(client)), client)


def spoil(client: Any, job: Spec[str], key: str, how: str) -> None:
    """Make a row one that cannot be decided."""
    row = f"{job.table}:{key}"
    match how:
        case "history":
            client.set(f"{job.table}/history:{key}", "not a stream")
        case "revision":
            client.hset(row, "rev", "many")
        case _:
            client.hset(row, "attempts", how)


SPOILT = pytest.mark.parametrize("how", ["1.5", "-", "nan", "1e400", "revision", "history"])


@SPOILT
async def test_a_row_that_cannot_be_decided_keeps_no_other_from_being_claimed(
    client: "redis.Redis", how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P3: it is left as it was and told of once, until it is looked at again when a lease is over; those beside it go on."""
    ground = ground_of(client)
    job = jobs(ground, history=True, claim={"max_attempts": None, "dead_letter": None})
    await put_jobs(ground, job, "a", "b", "c")
    work = job.claims["work"]
    spoil(client, job, "b", how)
    before = client.hgetall(f"{job.table}:b")
    db: Store = bind(client)
    assert [one.key for one in db.claim(work, 5, now=NOON)] == ["a", "c"]
    assert db.claim(work, 5, now=after(1)) == []
    assert client.hgetall(f"{job.table}:b") == before
    (told,) = [record.getMessage() for record in caplog.records]
    assert "could not decide Job.work of 'b'" in told
    client.hset(f"{job.table}:b", mapping={"attempts": 0, "rev": 0})
    client.delete(f"{job.table}/history:b")
    assert "b" in [one.key for one in db.claim(work, 5, now=after(31))]


@SPOILT
async def test_a_row_that_cannot_be_decided_is_not_claimed_by_its_key(client: "redis.Redis", how: str) -> None:
    """The error says which one and why, and nothing of it was written."""
    ground = ground_of(client)
    job = jobs(ground, history=True, claim={"max_attempts": None, "dead_letter": None})
    await put_jobs(ground, job, "b")
    spoil(client, job, "b", how)
    before = client.hgetall(f"{job.table}:b"), client.zrange(f"{job.table}/work", 0, -1, withscores=True)
    with pytest.raises(ScriptFailed, match=r"Job\.work of 'b'"):
        bind(client).claim_one(job.claims["work"], "b", now=NOON)
    assert before == (
        client.hgetall(f"{job.table}:b"),
        client.zrange(f"{job.table}/work", 0, -1, withscores=True),
    )


@pytest.mark.parametrize("how", ["revision", "history"])
async def test_a_row_that_cannot_be_decided_is_not_dead_letter_and_keeps_no_other_from_it(
    client: "redis.Redis", how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays as it was, and is told of once until a lease is over."""
    ground = ground_of(client)
    job = jobs(ground, history=True)
    await put_jobs(ground, job, "a", "b", "c", attempts=3)
    spoil(client, job, "b", how)
    for moment in (NOON, after(1)):
        assert bind(client).claim(job.claims["work"], 5, now=moment) == []
    assert statuses(client, job, "a", "b", "c") == ["DEAD", "QUEUED", "DEAD"]
    (told,) = [record.getMessage() for record in caplog.records]
    assert "'b'" in told


@pytest.mark.parametrize("how", ["revision", "history"])
@pytest.mark.parametrize("call", ["release", "fail"])
async def test_a_row_that_cannot_be_decided_is_given_back_wholly_or_not_at_all(
    client: "redis.Redis", how: str, call: str
) -> None:
    """The others of the call are given back."""
    ground = ground_of(client)
    job = jobs(ground, history=how == "history")
    await put_jobs(ground, job, "a", "b", "c")
    db: Store = bind(client)
    claims = db.claim(job.claims["work"], 3, now=NOON)
    client.delete(f"{job.table}/history:b")
    spoil(client, job, "b", how)
    before = client.hgetall(f"{job.table}:b")
    with pytest.raises(ScriptFailed, match=r"Job\.work of 'b'"):
        getattr(db, call)(claims, now=after(1))
    assert client.hgetall(f"{job.table}:b") == before
    assert statuses(client, job, "a", "c") == ["QUEUED", "QUEUED"]


async def test_an_attempt_that_is_no_number_is_not_refunded_and_the_row_is_given_back(
    client: "redis.Redis",
) -> None:
    """Somebody has spoilt it while the row was held."""
    ground = ground_of(client)
    job = jobs(ground)
    await put_jobs(ground, job, "a")
    (mine,) = bind(client).claim(job.claims["work"], now=NOON)
    client.hset(f"{job.table}:a", "attempts", "1.5")
    (given,) = bind(client).release(mine, now=after(1))
    assert isinstance(given, Released)


async def test_a_key_of_another_type_is_no_row_that_could_be_claimed(client: "redis.Redis") -> None:
    """By search, by key, to those who held what was there before, and to those who look."""
    ground = ground_of(client)
    job = jobs(ground)
    await put_jobs(ground, job, "a", "b", "c")
    db: Store = bind(client)
    work = job.claims["work"]
    (mine,) = db.claim(work, 1, now=NOON)
    for key in ("a", "b"):
        client.delete(f"{job.table}:{key}")
        client.set(f"{job.table}:{key}", "x")
    assert db.claims(work, now=NOON) == []
    assert [one.key for one in db.claim(work, 5, now=NOON)] == ["c"]
    assert client.zrange(f"{job.table}/work", 0, -1) == ["a", "c"]
    assert isinstance(db.claim_one(work, "b", now=NOON), Missing)
    assert [type(one) for one in (*db.renew(mine), *db.release(mine), *db.fail(mine))] == [Missing] * 3
    db.offer(work, ["b"])
    assert client.zscore(f"{job.table}/work", "b") is None


@ALL_FORMS
async def test_a_fence_that_another_program_wrote_is_not_ours(client: "redis.Redis", form: str) -> None:
    """P5: whatever it looks like, the late holder is told that it has lost the row, and the next one can claim it."""
    ground = ground_of(client)
    job = jobs(ground, form)
    work = job.claims["work"]
    await put_jobs(ground, job, "a")
    db: Store = bind(client)
    for foreign in ("abc", "1.5", "", "inf", "²"):
        late = db.claim_one(work, "a", now=NOON)
        assert isinstance(late, Claim)
        client.hset(f"{job.table}:a", work.form.fence_column, foreign)
        for answer in (*db.renew(late), *db.release(late), *db.fail(late)):
            assert isinstance(answer, Lost)
            assert answer.fence == foreign
        client.hset(f"{job.table}:a", mapping={"claimed_until": 0, "attempts": 0})
        client.hdel(f"{job.table}:a", *work.form.cleared)


def test_a_turn_that_cannot_be_counted_is_not_taken(client: "redis.Redis") -> None:
    """P7: an error, and a row that nobody sends from; not one that somebody seems to send from."""
    table = fresh_name("pictures")
    client.hset(f"{table}:a", mapping={"job_id": "a", "tries": "1.5"})
    with pytest.raises(redis.ResponseError):
        bind(client).begin_delivery(Delivery("picture", table, "job_id", attempts="tries"), "a", now=NOON)
    assert client.hgetall(f"{table}:a") == {"job_id": "a", "tries": "1.5"}


@pytest.mark.parametrize("spoilt", ["revision", "history", "new history", "owned"])
def test_an_attempt_that_cannot_be_begun_ends_none(client: "redis.Redis", spoilt: str) -> None:
    """P9: an error, and the open one goes on, as if nobody had asked."""
    attempts, login = logins(ground_of(client), history=True)
    db: Store = bind(client)
    db.start_attempt(attempts, "ann", "a1", now=NOON)
    match spoilt:
        case "revision":
            client.hset(f"{login.table}:a1", "rev", "many")
        case "history" | "new history":
            of = f"{login.table}/history:{'a1' if spoilt == 'history' else 'a2'}"
            client.delete(of)
            client.set(of, "not a stream")
        case _:
            client.delete(f"{login.table}/owned:ann")
            client.set(f"{login.table}/owned:ann", "not a set")
    before = client.hgetall(f"{login.table}:a1")
    with pytest.raises(redis.ResponseError) as refused:
        db.start_attempt(attempts, "ann", "a2", now=after(1))
    assert says_nothing_was_kept(refused.value)
    assert client.hgetall(f"{login.table}:a1") == before
    assert (client.get(f"{login.table}/active:ann"), client.exists(f"{login.table}:a2")) == ("a1", 0)


def test_epochs_grow_beyond_what_a_float_can_count(client: "redis.Redis") -> None:
    """P10: no two holders of a lease lead in the same one."""
    lease = Lease("bot", 30, fresh_name("leases"))
    client.hset(f"{lease.table}:bot", "epoch", 2**53 + 1)
    db: Store = bind(client)
    ann, bob = db.acquire_lease(lease, "ann", now=NOON), db.acquire_lease(lease, "bob", now=after(31))
    assert isinstance(ann, LeaseGranted)
    assert isinstance(bob, LeaseGranted)
    assert [ann.epoch, bob.epoch] == [2**53 + 2, 2**53 + 3]


def statuses(client: Any, order: Spec[str], *keys: str) -> list[Any]:
    return [client.hget(f"{order.table}:{key}", "status") for key in keys]


def test_a_key_of_another_type_is_no_row(client: "redis.Redis") -> None:
    """A text, a list: nothing of ours."""
    order = orders()
    client.set(f"{order.table}:text", "x")
    client.rpush(f"{order.table}:list", "x")
    db: Store = bind(client)
    put(client, order, "a")
    answers = db.move_many(order.moves["pack"], ["text", "a", "list"])
    assert [type(answer) for answer in answers] == [Missing, Moved, Missing]


def test_a_history_that_is_no_stream_keeps_the_row_where_it_is(client: "redis.Redis") -> None:
    """The error says that nothing was kept, and so it is."""
    order = orders(history=True)
    put(client, order, "bad")
    client.set(f"{order.table}/history:bad", "not a stream")
    with pytest.raises(ScriptFailed) as failure:
        bind(client).move(order.moves["pack"], "bad")
    assert says_nothing_was_kept(failure.value)
    assert statuses(client, order, "bad") == ["NEW"]


def test_a_history_that_is_no_stream_leaves_no_row_of_a_bulk_without_its_history(
    client: "redis.Redis",
) -> None:
    """Others may have moved before the error, and then say so; a row that moved has its entry."""
    order = orders(history=True)
    put(client, order, "a", "b", "bad")
    client.set(f"{order.table}/history:bad", "not a stream")
    with pytest.raises(ScriptFailed) as failure:
        bind(client).move_many(order.moves["pack"], ["a", "bad", "b"])
    moved = [key for key in ("a", "b", "bad") if statuses(client, order, key) == ["PACKED"]]
    assert "bad" not in moved
    assert not (moved and says_nothing_was_kept(failure.value))
    assert [client.xlen(f"{order.table}/history:{key}") for key in moved] == [1] * len(moved)


def test_a_history_that_is_no_stream_leaves_even_a_great_revision_as_it_was(client: "redis.Redis") -> None:
    """A revision that Lua cannot count is counted in the row, before the history is written."""
    order = orders(history=True)
    put(client, order, "bad", rev=2**53)
    client.set(f"{order.table}/history:bad", "not a stream")
    with pytest.raises(ScriptFailed):
        bind(client).move(order.moves["pack"], "bad")
    assert client.hmget(f"{order.table}:bad", "status", "rev") == ["NEW", str(2**53)]


def test_a_revision_that_is_no_number_keeps_the_row_where_it_is(client: "redis.Redis") -> None:
    """An error that says so, or a start from zero, but never a moved row and an error."""
    order = orders(history=True)
    put(client, order, "a", rev="many")
    try:
        answer = bind(client).move(order.moves["pack"], "a")
    except Exception:
        assert statuses(client, order, "a") == ["NEW"]
    else:
        assert isinstance(answer, Moved)
        assert (answer.revision, client.hget(f"{order.table}:a", "rev")) == (1, "1")


def test_a_field_that_is_no_text_does_not_spoil_the_answer(client: "redis.Redis", valkey_server: ValkeyServer) -> None:
    """Another program keeps bytes in the same hash; the caller asks for them or not, the move is told as moved."""
    order = orders()
    put(client, order, "a")
    with redis.Redis.from_url(valkey_server.url) as raw:
        raw.hset(f"{order.table}:a", "blob", b"\xff\x00")
        answer = bind(raw).move(order.moves["pack"], "a", returning=["blob"])
        assert isinstance(answer, Moved)
        assert bind(raw).read(order, "a") is not None


def test_revisions_grow_beyond_what_a_float_can_count(client: "redis.Redis") -> None:
    """After 2**53 the next one is still the next one."""
    order = orders()
    put(client, order, "a", rev=2**53)
    answer = bind(client).move(order.moves["pack"], "a")
    assert isinstance(answer, Moved)
    assert (answer.revision, client.hget(f"{order.table}:a", "rev")) == (2**53 + 1, str(2**53 + 1))


def test_a_number_is_compared_as_a_number_and_a_text_as_a_text(client: "redis.Redis") -> None:
    """As SQL would; a field that is no number equals none and is not unequal to any."""
    order = orders()
    put(client, order, "a", n="10", text="abc")
    db: Store = bind(client)
    pack = order.moves["pack"]
    for where in (column("n") < 9, column("text") < 5, column("text") != 5, column("none") != 5):
        assert db.move(pack, "a", where=where).outcome == "refused"
    assert db.move(pack, "a", where=[column("n") > 9, column("text") == "abc"]).outcome == "moved"


def test_a_bulk_that_breaks_off_in_the_middle_does_not_deny_its_beginning(client: "redis.Redis") -> None:
    """It goes to the server in pieces: when the second cannot be sent, the first one's rows have moved."""
    order = orders()
    keys = [f"k{number}" for number in range(1200)]
    put(client, order, *keys)
    pool = client.connection_pool
    take, taken = pool.get_connection, []

    def flaky(*args: Any, **options: Any) -> Any:
        taken.append(1)
        if len(taken) == 2:
            raise redis.ConnectionError("gone")
        return take(*args, **options)

    pool.get_connection = flaky  # type: ignore[method-assign]
    try:
        outcomes = [answer.outcome for answer in bind(client).move_many(order.moves["pack"], keys)]
    except redis.ConnectionError as error:
        outcomes = ["denied" if says_nothing_was_kept(error) else "unknown"] * len(keys)
    finally:
        pool.get_connection = take  # type: ignore[method-assign]
    moved = [status == "PACKED" for status in statuses(client, order, *keys)]
    assert any(moved)
    for told, has_moved in zip(outcomes, moved, strict=True):
        assert (told, has_moved) in (("moved", True), ("unknown", True), ("unknown", False))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60))
def test_a_lua_literal_is_exactly_its_text(client: "redis.Redis", text: str) -> None:
    """Asked of a real Lua: nothing that a declaration contains can end its quote (security 8)."""
    assert client.eval(f"return {lua_literal(text)}", 0) == text


@pytest.mark.parametrize(
    "odd",
    ["'", "\\", "\\'", "]]", "--", "\n", "\r\n", "\t", "%s", "é", "\x7f", "'..redis.call('TIME')..'"],
)
def test_a_lua_literal_keeps_what_means_something_to_lua(client: "redis.Redis", odd: str) -> None:
    """One by one, for chance need not find them."""
    assert client.eval(f"return {lua_literal(odd)}", 0) == odd
