"""Which row a key names, on every store: keys of every kind, tenants, odd names."""

from uuid import UUID

import pytest

from raceproof import Missing, Refused, column
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.orders import orders


async def test_keys_of_every_kind_find_their_row_and_no_other(ground: Ground) -> None:
    """Text with any characters."""
    order = orders(history=True)
    ground.table(order)
    keys = ["a'b", 'a"b', "a:b", "a%3Ab", "100%", "{x}", "ключ", "🐎", " ", "a\\b", "$1", "?", "%s", "x" * 300]
    for key in keys:
        ground.put(order, key, "NEW")
    for key in keys:
        assert (await ground.db.move(order.moves["pack"], key, by=key, reason=key)).won
        (entry,) = await ground.db.history(order, key)
        assert (entry.actor, entry.reason) == (key, key)


@pytest.mark.parametrize("kind", ["bigint", "uuid"])
async def test_numbers_and_uuids_are_keys(ground: Ground, kind: str) -> None:
    """Each with the column's own type."""
    order = orders(history=True)
    ground.table(order, {"order_id": kind})
    number = 2**53 - 1 if kind == "bigint" else UUID("6f1f2c3a-0b1c-4d5e-8f90-123456789abc")
    ground.put(order, number, "NEW")
    assert (await ground.db.move(order.moves["pack"], number)).won
    assert [answer.outcome for answer in await ground.db.move_many(order.moves["send"], [number])] == ["moved"]
    assert len(await ground.db.history(order, number)) == 2


async def test_a_key_of_several_columns_is_a_tuple(ground: Ground) -> None:
    """Parts never run into each other."""
    order = orders(key=["shop", "order_id"], history=True)
    ground.table(order)
    pairs = [("a", "b:c"), ("a:b", "c"), ("a%3Ab", "c"), ("a", "b%3Ac")]
    for pair in pairs:
        ground.put(order, pair, "NEW")
    for pair in pairs:
        assert (await ground.db.move(order.moves["pack"], pair)).won
        assert len(await ground.db.history(order, pair)) == 1
    answers = await ground.db.move_many(order.moves["send"], pairs)
    assert [(answer.key, answer.outcome) for answer in answers] == [(pair, "moved") for pair in pairs]


async def test_a_tenant_sees_its_own_rows_alone(ground: Ground) -> None:
    """The same key of another tenant is another row; without a tenant nothing is sent."""
    order = orders(tenant="tenant_id", history=True)
    ground.table(order)
    ground.put(order, ("red", "a"), "NEW")
    ground.put(order, ("blue", "a"), "SENT")
    red, blue, green = (ground.db.for_tenant(name) for name in ("red", "blue", "green"))
    assert (await red.move(order.moves["pack"], "a")).key == "a"
    assert isinstance(await blue.move(order.moves["pack"], "a"), Refused)
    assert isinstance(await green.move(order.moves["pack"], "a"), Missing)
    assert [a.outcome for a in await red.move_many(order.moves["send"], ["a", "b"])] == ["moved", "missing"]
    ground.put(order, ("red", "b"), "SENT")
    found = await red.move_many(order.moves["finish"], where=column("rev") >= 0)
    assert sorted((answer.key, answer.outcome) for answer in found) == [("a", "moved"), ("b", "moved")]
    assert ground.get(order, ("blue", "a"))["status"] == "SENT"
    with pytest.raises(CallError, match="tenant"):
        await ground.db.move(order.moves["pack"], "a")


async def test_odd_names_are_only_names(ground: Ground) -> None:
    """Quotes, spaces, braces, percent signs and capitals in every declared name."""
    odd = fresh_name("Odd {t} 100%") + ' ""x"" '
    order = orders(
        table=f'"{odd}"',
        key='the "key" {k}%',
        column="St%tus; --",
        revision="Rev {0}",
        statuses=["N'EW", 'PA"CKED {x}', "100%"],
        terminal=["100%"],
        moves={
            "p'ack": {"from": ["N'EW"], "to": 'PA"CKED {x}', "stamp": ["a'b%"], "sets": ["s{e}t"]},
            "done": {"from": ['PA"CKED {x}', "N'EW"], "to": "100%", "where": [["s{e}t", "=", "v"]]},
        },
    )
    ground.table(order)
    ground.put(order, "a", "N'EW")
    packed = await ground.db.move(order.moves["p'ack"], "a", set={"s{e}t": "v"}, returning=["s{e}t", "St%tus; --"])
    assert packed.row == {"s{e}t": "v", "St%tus; --": 'PA"CKED {x}'}
    assert [a.outcome for a in await ground.db.move_many(order.moves["done"], ["a"])] == ["moved"]
    assert ground.get(order, "a")["St%tus; --"] == "100%"


BAD_KEYS = [None, True, 1.5, ["a"], {"a": 1}, b"a", (), ("a", "b"), "a\0b"]


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
async def test_a_key_of_the_wrong_shape_is_an_error_before_anything_is_sent(ground: Ground, key: object) -> None:
    """The error says what a key must be."""
    order = orders()
    with pytest.raises(CallError, match="Order: a key"):
        await ground.db.move(order.moves["pack"], key)
