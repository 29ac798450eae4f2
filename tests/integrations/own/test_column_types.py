"""Columns of any type can be set along with a move, one by one and in bulk, through each PostgreSQL driver (L3, L4)."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from raceproof import Moved, SendPermit
from raceproof.deliveries import DeliveryState
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.orders import orders
from raceproof.testing.contract.pictures import pictures
from tests.integrations.own.fix_kinds import Case

KINDS = (
    "asyncpg",
    "psycopg-autocommit",
    "psycopg-async",
    "sqlalchemy-psycopg",
    "sqlalchemy-asyncpg",
    "django-postgres",
)

VALUES: dict[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "smallint": (1, -2),
    "numeric(12,3)": (Decimal("1.500"), Decimal("-2.250")),
    "double precision": (1.5, -2.25),
    "bytea": (b"\x00\xff", b""),
    "uuid": (UUID(int=1), UUID(int=2)),
    "date": (date(2030, 1, 2), date(1999, 12, 31)),
    "timestamptz": (datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC), datetime(1999, 1, 1, tzinfo=UTC)),
    "interval": (timedelta(days=1, seconds=2), timedelta(0)),
    "jsonb": ('{"a": [1, "%s", "{}"]}', "[]"),
    "varchar(5)": ("abcde", "%s{}"),
    "text[]": (["a", "b,c", None], ["%s"]),
}


@pytest.mark.parametrize("case", KINDS, indirect=True)
@pytest.mark.parametrize("type_", list(VALUES))
async def test_a_value_arrives_as_it_was_given(case: Case, type_: str) -> None:
    """Two different values and NULL, by move and by move_many, compared by PostgreSQL itself."""
    order = orders()
    case.ground.table(order, {"packer": type_, "box": type_})
    values = [*VALUES[type_], None]
    for number, value in enumerate(values):
        for way in ("one", "many"):
            case.ground.put(order, f"{way}{number}", "NEW", box=value)
    await case.own.begin()
    for number, value in enumerate(values):
        answer = await case.db.move(order.moves["pack"], f"one{number}", set={"packer": value})
        assert isinstance(answer, Moved)
    columns = {f"many{number}": {"packer": value} for number, value in enumerate(values)}
    answers = await case.db.move_many(order.moves["pack"], columns)
    assert [answer.outcome for answer in answers] == ["moved"] * 3
    await case.own.commit()
    different = case.ground.run(f"SELECT order_id FROM {order.table} WHERE packer IS DISTINCT FROM box")
    assert different == []


@pytest.mark.parametrize("case", KINDS, indirect=True)
@pytest.mark.parametrize("type_", ["an enum", "varchar(9)"])
async def test_the_state_of_a_delivery_may_have_a_type_of_its_own(case: Case, type_: str) -> None:
    """Also where what is written depends on what is found."""
    delivery, spec = pictures(case.ground, True)
    if type_ == "an enum":
        states = ", ".join(f"'{state}'" for state in DeliveryState)
        case.ground.run(f"CREATE TYPE state_of_{spec.table} AS ENUM ({states})")
        type_ = f"state_of_{spec.table}"
    case.ground.run(f"ALTER TABLE {spec.table} ALTER COLUMN state TYPE {type_} USING state::{type_}")
    await case.own.begin()
    first = await case.db.begin_delivery(delivery, "a", reserve=True, now=NOON)
    assert isinstance(first, SendPermit)
    await case.db.uncertain(await case.db.sending(first, now=NOON), now=NOON)
    second = await case.db.begin_delivery(delivery, "a", reserve=True, now=after(1))
    assert isinstance(second, SendPermit)
    assert (await case.db.delivered(second, now=after(2))).won
    await case.own.commit()
    assert case.ground.get(spec, "a")["state"] == "delivered"
