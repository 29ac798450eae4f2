"""Redis keeps anything under any key: what is not a row, or not a history, is never half-written (P1, L5)."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raceproof import Missing, Moved, ScriptFailed, Spec, Store, bind, column
from raceproof.quoting import lua_literal
from raceproof.testing import ValkeyServer
from tests.contract.orders import orders
from tests.fix_told import says_nothing_was_kept


@pytest.fixture
def client(valkey_server: ValkeyServer) -> Iterator["redis.Redis"]:
    """A client of the caller's."""
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as found:
        yield found


def put(client: Any, order: Spec[str], *keys: str, **fields: Any) -> None:
    for key in keys:
        client.hset(f"{order.table}:{key}", mapping={"status": "NEW", "rev": 0, **fields})


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


def test_a_field_that_is_no_text_does_not_spoil_the_answer(
    client: "redis.Redis", valkey_server: ValkeyServer
) -> None:
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
