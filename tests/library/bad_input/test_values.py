"""Values that a store cannot take: a clear error that names the row, nothing half-written, and the next call works (L2)."""

from dataclasses import dataclass
from typing import Any

import pytest

from raceproof import Lost, Missing, Moved
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.orders import orders
from tests.fix_told import notes_of, says_nothing_was_kept, told

SURROGATE = "half \ud800 a character"


def rows(ground: Ground, types: dict[str, str] | None = None, **options: Any) -> Spec[str]:
    order = orders(history=True, **options)
    ground.table(order, types)
    for key in ("a", "b", "c", "d"):
        ground.put(order, key, "NEW", **({"fence": 2**53} if order.fence else {}))
    return order


async def nothing_was_kept(ground: Ground, order: Spec[str], failure: BaseException, key: str = "a") -> None:
    """The note is there, names the row and the table, and tells the truth; the store still works."""
    assert order.table in notes_of(failure)
    assert "many rows" in notes_of(failure) or (repr(key) in notes_of(failure) and says_nothing_was_kept(failure))
    for one in ("a", "b", "c"):
        row = ground.get(order, one)
        assert (one, row["status"], row["rev"], row["packer"]) == (one, "NEW", "0", None)
    assert isinstance(await ground.db.move(order.moves["pack"], "d"), Moved)
    assert ground.get(order, "d")["status"] == "PACKED"
    assert [len(await ground.db.history(order, one)) for one in "abcd"] == [0, 0, 0, 1]


@pytest.mark.parametrize("text", ["nul \0 inside", SURROGATE], ids=["nul", "surrogate"])
async def test_a_text_is_kept_as_it_is_or_refused(ground: Ground, text: str) -> None:
    """Some stores can keep a NUL, none can keep half a character; none keeps something else instead."""
    order = rows(ground)
    answer = await told(ground.db.move(order.moves["pack"], "a", set={"packer": text}))
    if isinstance(answer, Moved):
        assert ground.get(order, "a")["packer"] == text
    else:
        await nothing_was_kept(ground, order, answer)


@pytest.mark.parametrize("option", ["by", "reason", "call"])
async def test_half_a_character_in_the_history_is_refused(ground: Ground, option: str) -> None:
    """Before or by the store, with nothing written."""
    order = rows(ground)
    with pytest.raises(Exception) as failure:  # noqa: PT011  each driver has its own
        await ground.db.move(order.moves["pack"], "a", **{option: SURROGATE})
    if notes_of(failure.value):
        await nothing_was_kept(ground, order, failure.value)
    assert ground.get(order, "a")["status"] == "NEW"
    assert isinstance(await ground.db.move(order.moves["pack"], "b"), Moved)


async def test_half_a_character_in_a_key_is_refused(ground: Ground) -> None:
    """Alone and among others."""
    order = rows(ground)
    with pytest.raises(Exception):  # noqa: B017, PT011  each driver has its own
        await ground.db.move(order.moves["pack"], SURROGATE)
    with pytest.raises(Exception) as failure:  # noqa: PT011
        await ground.db.move_many(order.moves["pack"], ["a", "b", SURROGATE])
    if notes_of(failure.value):
        await nothing_was_kept(ground, order, failure.value)
    assert ground.get(order, "a")["status"] == "NEW"


async def test_a_bad_value_late_in_a_bulk_keeps_the_whole_of_it_out(ground: Ground) -> None:
    """The rows before it were fine, and are not written either."""
    order = rows(ground)
    columns: dict[Any, dict[str, Any]] = {key: {"packer": "x"} for key in ("a", "b")}
    columns["c"] = {"packer": SURROGATE}
    with pytest.raises(Exception) as failure:  # noqa: PT011  each driver has its own
        await ground.db.move_many(order.moves["pack"], columns)
    await nothing_was_kept(ground, order, failure.value)


@pytest.mark.parametrize("number", [2**63, -(2**70), 10**400])
async def test_a_huge_number_is_kept_as_it_is_or_refused(ground: Ground, number: int) -> None:
    """In a column that holds 64 bits."""
    order = rows(ground, {"packer": "bigint"})
    answer = await told(ground.db.move(order.moves["pack"], "a", set={"packer": number}))
    if isinstance(answer, Moved):
        assert ground.get(order, "a")["packer"] == str(number)
    else:
        await nothing_was_kept(ground, order, answer)


@pytest.mark.parametrize("number", [2**63, 10**400])
async def test_a_huge_key_is_no_row_or_refused(ground: Ground, number: int) -> None:
    """It can be no row's."""
    order = orders(history=True)
    ground.table(order, {"order_id": "bigint"})
    answer = await told(ground.db.move(order.moves["pack"], number))
    assert isinstance(answer, Missing) or order.table in notes_of(answer)


async def test_a_fence_is_compared_to_its_last_digit(ground: Ground) -> None:
    """Beyond 2**53 a floating-point number cannot tell neighbours apart; a fence must (P4)."""
    order = rows(ground, fence="fence")
    for fence in (2**53 + 1, 2**53 - 1, 2**62):
        answer = await ground.db.move(order.moves["pack"], "a", fence=fence)
        assert isinstance(answer, Lost)
        assert answer.fence == 2**53
    assert ground.get(order, "a")["status"] == "NEW"
    assert isinstance(await ground.db.move(order.moves["pack"], "a", fence=2**53), Moved)


async def test_a_class_that_refuses_the_row_keeps_the_move_or_undoes_it_but_tells_the_truth(
    ground: Ground,
) -> None:
    """The caller's own code fails while the answer is made: what the error says about the row is so."""

    @dataclass
    class Picky:
        order_id: str

        def __post_init__(self) -> None:
            raise ValueError("I do not like it")

    order = rows(ground)
    with pytest.raises(ValueError, match="do not like") as failure:
        await ground.db.move(order.moves["pack"], "a", returning=Picky)
    assert says_nothing_was_kept(failure.value) == (ground.get(order, "a")["status"] == "NEW")


async def test_a_column_that_does_not_exist_is_named(ground: Ground) -> None:
    """Asked back, or set; a hash in Redis has every column and none."""
    order = rows(ground)
    answer = await told(ground.db.move(order.moves["pack"], "a", returning=["no_such_column"]))
    if isinstance(answer, Moved):
        assert answer.row == {"no_such_column": None}
    else:
        assert "no_such_column" in str(answer)
        await nothing_was_kept(ground, order, answer)
