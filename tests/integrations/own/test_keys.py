"""Any key and any status column (L3): text, int, bigint, uuid, composite, tenant, enum, no revision; on every driver."""

from typing import Any
from uuid import UUID

import pytest

from raceproof import Lifecycle, Missing, Moved, Refused, column
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import Caller, fresh_name
from raceproof.testing.contract.orders import DECLARATION, orders
from tests.integrations.own.fix_kinds import Case

POSTGRES = (
    "asyncpg",
    "psycopg-autocommit",
    "psycopg-async",
    "sqlalchemy-psycopg",
    "sqlalchemy-asyncpg-session",
    "django-postgres",
)
SQLITE = ("sqlite3", "sqlalchemy-aiosqlite", "django-sqlite")

A, B, NOBODY = (UUID(int=number) for number in (10, 11, 12))

KEYS: dict[str, tuple[dict[str, str], tuple[Any, Any, Any]]] = {
    "text": ({"order_id": "text"}, ("a:1%", "ü'b", "nobody")),
    "varchar": ({"order_id": "varchar(10)"}, ("a", "b", "nobody")),
    "int": ({"order_id": "int"}, (1, -2, 3)),
    "bigint": ({"order_id": "bigint"}, (2**62, -(2**63), 2**63 - 1)),
    "uuid": ({"order_id": "uuid"}, (A, B, NOBODY)),
    "composite": ({"region": "text", "order_id": "int"}, (("eu:%", 1), ("us", 1), ("us", 2))),
    "three": ({"x": "uuid", "y": "bigint", "z": "text"}, ((A, 1, "z"), (A, 2, "z"), (B, 1, "z"))),
}


async def check_moves(case: Case, order: Spec[str], a: Any, b: Any, nobody: Any, db: Caller | None = None) -> None:
    """One row, a loser, a missing one, a bulk with all of these, a repeated call, a predicate, reading and history."""
    db = db or case.db
    pack, take_back = order.moves["pack"], order.moves["take_back"]
    await case.own.begin()
    assert isinstance(await db.move(pack, a), Moved)
    assert isinstance(await db.move(take_back, a), Refused)
    assert isinstance(await db.move(pack, nobody), Missing)
    answers = await db.move_many(pack, [b, nobody, a, b])
    assert [(answer.key, answer.outcome) for answer in answers] == [
        (b, "moved"),
        (nobody, "missing"),
        (a, "already"),
        (b, "already"),
    ]
    assert (await db.move(order.moves["send"], a, call="x")).replayed is False
    assert (await db.move(order.moves["send"], a, call="x")).replayed is True
    (found,) = await db.move_many(take_back, where=column("status") == "SENT")
    # SQLite keeps a UUID as text, and so it finds it
    assert str(found.key) == str(a) if not isinstance(a, tuple) else list(map(str, found.key)) == list(map(str, a))
    assert (await db.read(order, a))["status"].rstrip() == "RETURNED"
    assert [entry.move for entry in await db.history(order, a)] == ["take_back", "send", "pack"]
    await case.own.commit()
    assert len(await db.history(order, b)) == 1


@pytest.mark.parametrize("case", POSTGRES + SQLITE, indirect=True)
@pytest.mark.parametrize("kind", list(KEYS))
async def test_a_key_of_any_type_finds_its_row(case: Case, kind: str) -> None:
    """The same calls for every type, with values that are easily confused."""
    types, (a, b, nobody) = KEYS[kind]
    order = orders(history=True, key=list(types))
    case.ground.table(order, types)
    for key in (a, b):
        case.ground.put(order, key, "NEW")
    await check_moves(case, order, a, b, nobody)


@pytest.mark.parametrize("case", POSTGRES + SQLITE, indirect=True)
async def test_a_tenant_sees_its_own_rows_only(case: Case) -> None:
    """The same key of another tenant is another row, in one call and in a bulk."""
    order = orders(history=True, tenant="tenant_id")
    case.ground.table(order, {"tenant_id": "int"})
    for tenant in (1, 2):
        for key in ("a", "b"):
            case.ground.put(order, (tenant, key), "NEW")
    await check_moves(case, order, "a", "b", "nobody", case.db.for_tenant(1))
    assert [case.ground.get(order, (2, key))["status"] for key in "ab"] == ["NEW", "NEW"]
    assert isinstance(await case.db.for_tenant(3).move(order.moves["pack"], "a"), Missing)


@pytest.mark.parametrize("case", POSTGRES, indirect=True)
@pytest.mark.parametrize("type_", ["enum", "varchar(12)", "char(12)", "domain"])
async def test_a_status_column_of_any_type_works(case: Case, type_: str) -> None:
    """Texts of the declaration become labels of the enum; in a schema that is not on the search path, too."""
    if type_ in ("enum", "domain"):
        schema = fresh_name("types")
        labels = ", ".join(f"'{status}'" for status in DECLARATION["statuses"])
        case.ground.run(f"CREATE SCHEMA {schema}")
        if type_ == "enum":
            case.ground.run(f'CREATE TYPE {schema}."My Kind" AS ENUM ({labels})')
        else:
            case.ground.run(f'CREATE DOMAIN {schema}."My Kind" AS text CHECK (VALUE IN ({labels}))')
        type_ = f'{schema}."My Kind"'
    order = orders(history=True)
    case.ground.table(order, {"status": type_})
    for key in "ab":
        case.ground.put(order, key, "NEW")
    await check_moves(case, order, "a", "b", "nobody")


@pytest.mark.parametrize("case", POSTGRES + SQLITE, indirect=True)
async def test_a_table_without_a_revision_works(case: Case) -> None:
    """The answers then have none."""
    declaration = {name: value for name, value in DECLARATION.items() if name != "revision"}
    order = Lifecycle.from_dict({**declaration, "table": fresh_name(), "history": fresh_name("history")})
    case.ground.table(order)
    for key in "ab":
        case.ground.put(order, key, "NEW")
    await check_moves(case, order, "a", "b", "nobody")
    assert (await case.db.move(order.moves["send"], "b")).revision is None
    await case.own.rollback() if case.own.in_transaction() else None


@pytest.mark.parametrize("case", POSTGRES, indirect=True)
async def test_the_same_uuid_in_another_spelling_is_the_same_row(case: Case) -> None:
    """A bulk that names a row twice in different spellings moves it once and tells the second so."""
    order = orders(key="order_id")
    case.ground.table(order, {"order_id": "uuid"})
    case.ground.put(order, A, "NEW")
    await case.own.begin()
    answers = await case.db.move_many(order.moves["pack"], [str(A), str(A).upper(), str(A)])
    await case.own.commit()
    assert [answer.outcome for answer in answers] == ["moved", "already", "already"]
    assert case.ground.get(order, A)["rev"] == "1"
