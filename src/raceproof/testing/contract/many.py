"""What a move of many rows promises on every store (L4)."""

import pytest

from raceproof import column
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.orders import orders


async def test_each_key_gets_its_own_answer_in_order(ground: Ground) -> None:
    """Rows that cannot move do not stop the others."""
    order = orders()
    ground.table(order)
    for key, status in (("a", "NEW"), ("b", "SENT"), ("c", "PACKED"), ("d", "RETURNED")):
        ground.put(order, key, status)
    answers = await ground.db.move_many(order.moves["pack"], ["d", "nobody", "b", "a", "c"])
    assert [(answer.key, answer.outcome) for answer in answers] == [
        ("d", "moved"),
        ("nobody", "missing"),
        ("b", "refused"),
        ("a", "moved"),
        ("c", "already"),
    ]
    assert [answer.before for answer in answers if answer.won] == ["RETURNED", "NEW"]
    assert [ground.get(order, key)["status"] for key in "abcd"] == ["PACKED", "SENT", "PACKED", "PACKED"]


async def test_a_key_named_twice_moves_once(ground: Ground) -> None:
    """The second time, the answer is `Already`."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    answers = await ground.db.move_many(order.moves["pack"], ["a", "a", "a"])
    assert [answer.outcome for answer in answers] == ["moved", "already", "already"]
    assert ground.get(order, "a")["rev"] == "1"


async def test_no_keys_no_answers(ground: Ground) -> None:
    """An empty list is not an error."""
    order = orders()
    ground.table(order)
    assert await ground.db.move_many(order.moves["pack"], []) == []


async def test_each_row_sets_columns_of_its_own(ground: Ground) -> None:
    """Given as a mapping from keys to columns."""
    order = orders()
    ground.table(order)
    for key in "abc":
        ground.put(order, key, "NEW")
    columns = {key: {"packer": f"packer {key}", "box": None if key == "b" else key} for key in "abc"}
    answers = await ground.db.move_many(order.moves["pack"], columns, returning=["packer"])
    assert [answer.row for answer in answers] == [{"packer": f"packer {key}"} for key in "abc"]
    assert [ground.get(order, key)["box"] for key in "abc"] == ["a", None, "c"]


async def test_one_set_of_columns_serves_all_rows(ground: Ground) -> None:
    """And one actor and one reason."""
    order = orders(history=True)
    ground.table(order)
    for key in "abc":
        ground.put(order, key, "NEW")
    await ground.db.move_many(order.moves["pack"], list("abc"), set={"packer": "ann"}, by="ann", reason="monday")
    assert {ground.get(order, key)["packer"] for key in "abc"} == {"ann"}
    for key in "abc":
        (entry,) = await ground.db.history(order, key)
        assert (entry.actor, entry.reason, entry.before) == ("ann", "monday", "NEW")


async def test_losers_of_a_bulk_learn_who_won(ground: Ground) -> None:
    """And the history records them where the lifecycle asks for it."""
    order = orders(losers=True)
    ground.table(order)
    for key in "ab":
        ground.put(order, key, "NEW")
    await ground.db.move(order.moves["pack"], "a", by="ann")
    answers = await ground.db.move_many(order.moves["pack"], ["a", "b"], by="bob")
    assert [(answer.outcome, getattr(answer, "by", None)) for answer in answers] == [
        ("already", "ann"),
        ("moved", None),
    ]
    assert [entry.outcome for entry in await ground.db.history(order, "a")] == ["already", "moved"]


async def test_a_predicate_moves_all_rows_that_match_and_no_other(ground: Ground) -> None:
    """Only rows at a source status move, and each gets an answer."""
    order = orders(history=True)
    ground.table(order, {"weight": "int"})
    for key, status, weight in (("a", "NEW", 1), ("b", "NEW", 9), ("c", "SENT", 9), ("d", "RETURNED", 10)):
        ground.put(order, key, status, weight=weight)
    answers = await ground.db.move_many(
        order.moves["pack"], where=column("weight") > 5, set={"packer": "ann"}, by="ann", returning=["packer"]
    )
    found = sorted((answer.key, answer.outcome, answer.before, answer.row["packer"]) for answer in answers)
    assert found == [("b", "moved", "NEW", "ann"), ("d", "moved", "RETURNED", "ann")]
    assert [ground.get(order, key)["status"] for key in "abcd"] == ["NEW", "PACKED", "SENT", "PACKED"]
    assert [entry.actor for entry in await ground.db.history(order, "d")] == ["ann"]


async def test_a_limit_bounds_a_predicate(ground: Ground) -> None:
    """The next call can move the rest."""
    order = orders()
    ground.table(order)
    for number in range(7):
        ground.put(order, f"k{number}", "NEW")
    taken = []
    for expected in (3, 3, 1, 0):
        answers = await ground.db.move_many(order.moves["pack"], where=column("rev") == 0, limit=3)
        assert len(answers) == expected
        taken += [answer.key for answer in answers]
    assert sorted(taken) == [f"k{number}" for number in range(7)]


async def test_a_thousand_rows_move_at_once(ground: Ground) -> None:
    """None of them twice."""
    order = orders()
    ground.table(order)
    keys = [f"k{number:04}" for number in range(1000)]
    for key in keys[:20]:
        ground.put(order, key, "NEW")
    answers = await ground.db.move_many(order.moves["pack"], keys)
    assert [answer.outcome for answer in answers] == ["moved"] * 20 + ["missing"] * 980


async def test_fences_and_revisions_guard_each_row_of_a_bulk(ground: Ground) -> None:
    """One value for all rows: rows without it are lost or refused."""
    order = orders(fence="fence")
    ground.table(order)
    ground.put(order, "a", "NEW", fence=4, rev=2)
    ground.put(order, "b", "NEW", fence=5, rev=2)
    answers = await ground.db.move_many(order.moves["pack"], ["a", "b"], fence=4)
    assert [answer.outcome for answer in answers] == ["moved", "lost"]
    answers = await ground.db.move_many(order.moves["pack"], ["b"], revision=1)
    assert [answer.outcome for answer in answers] == ["refused"]
    answers = await ground.db.move_many(order.moves["pack"], ["b"], where=column("fence") == 5)
    assert [answer.outcome for answer in answers] == ["moved"]


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        ([], {}, "needs keys, or a where="),
        (["abc"], {}, "several keys, not the one text"),
        ([["a"]], {"call": "x"}, "use move for it"),
        ([], {"where": column("rev") == 0, "limit": 0}, "would move nothing"),
        ([], {"where": column("rev") == 0, "revision": 1}, "belongs to one row"),
        ([{"a": {"packer": "x"}}], {"set": {"box": "y"}}, "not both"),
        ([{"a": {"packer": "x"}, "b": {"box": "y"}}], {}, "set the same columns"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_call_that_makes_no_sense_is_an_error(
    ground: Ground, arguments: list[object], options: dict[str, object], problem: str
) -> None:
    """The error says what is wrong, and nothing is written."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    with pytest.raises(CallError, match=problem):
        await ground.db.move_many(order.moves["pack"], *arguments, **options)
    assert ground.get(order, "a")["status"] == "NEW"
