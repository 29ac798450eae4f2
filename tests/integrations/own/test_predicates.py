"""`sql(…)` and `column(…)` guards in every style of placeholder: decided by the store, on the right values (L2, L4)."""

from typing import Any

import pytest

from raceproof import Moved, Refused, column, sql
from raceproof.declare import Spec
from raceproof.testing.contract.orders import DECLARATION, orders
from tests.integrations.own.fix_kinds import Case

POSTGRES = ("asyncpg", "psycopg-autocommit", "sqlalchemy-psycopg", "sqlalchemy-asyncpg", "django-postgres")
SQLITE = ("sqlite3", "sqlalchemy-sqlite", "sqlalchemy-aiosqlite", "django-sqlite")

every_style = pytest.mark.parametrize("case", POSTGRES + SQLITE, indirect=True)


def prepared(case: Case, order: Spec[str], **columns: Any) -> Spec[str]:
    case.ground.table(order, {"n": "int", "m": "int", "label": "text"})
    for key in "ab":
        case.ground.put(order, key, "NEW", **columns)
    return order


@every_style
@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        (sql("n % 10 = {rest}", rest=2), sql("n % 10 = {rest}", rest=3)),
        (sql("label LIKE '100%'"), sql("label LIKE '%s'")),
        (sql("label LIKE {p}", p="%{x}%"), sql("label LIKE {p}", p="%%s")),
        (sql("label <> '{{}}' AND label LIKE '%{{x}}%'"), sql("label = '{{x}}'")),
        (sql("label <> '?' AND label <> '$1' AND label <> ':x' AND n = {n}", n=42), sql("label = '?'")),
        (sql("n = {a} AND m = {b} AND n <> {b}", a=42, b=7), sql("n = {b} AND m = {a}", a=42, b=7)),
        (sql("t.n > {low} AND t.n < {high}", low=1, high=99), sql("n BETWEEN {x} AND {x}", x=1)),
        ([column("n") == 42, sql("m = {value}", value=7)], [column("n") == 42, sql("m = {value}", value=8)]),
        (column("label").is_not_null(), column("label").is_null()),
        (column("label") == "100% {x}", column("label") != "100% {x}"),
    ],
    ids=["modulo", "like", "like-parameter", "braces", "marks", "two", "range", "several", "null", "text"],
)
async def test_a_predicate_is_decided_with_its_own_values(case: Case, holds: Any, fails: Any) -> None:
    """What holds moves the row, what does not is refused and named; by key, in bulk, and as a search."""
    order = prepared(case, orders(), n=42, m=7, label="100% {x}")
    pack = order.moves["pack"]
    await case.own.begin()
    refused = await case.db.move(pack, "a", where=fails)
    assert isinstance(refused, Refused)
    assert refused.unmet
    assert await case.db.move_many(pack, where=fails) == []
    assert [one.outcome for one in await case.db.move_many(pack, ["a"], where=fails)] == ["refused"]
    assert isinstance(await case.db.move(pack, "a", where=holds), Moved)
    (found,) = await case.db.move_many(pack, where=holds)
    assert found.key == "b"
    await case.own.commit()
    assert [case.ground.get(order, key)["rev"] for key in "ab"] == ["1", "1"]


@every_style
async def test_the_order_in_which_parameters_are_given_does_not_matter(case: Case) -> None:
    """The same fragment twice, its parameters once this way round and once the other."""
    order = prepared(case, orders(), n=1, m=2)
    await case.own.begin()
    fragment = "n = {x} AND m = {y}"
    assert isinstance(await case.db.move(order.moves["pack"], "a", where=sql(fragment, x=1, y=2)), Moved)
    assert isinstance(await case.db.move(order.moves["pack"], "b", where=sql(fragment, y=2, x=1)), Moved)
    answer = await case.db.move(order.moves["send"], "a", where=sql(fragment, y=1, x=2))
    assert isinstance(answer, Refused)
    await case.own.commit()


@every_style
async def test_a_declared_guard_is_part_of_every_call(case: Case) -> None:
    """Beside the guards of the call, and in bulks too."""
    moves = {"pack": {"from": ["NEW"], "to": "PACKED", "where": [["n", "<", 5], ["m % {d} = 0", "sql", {"d": 2}]]}}
    order = orders(moves={**DECLARATION["moves"], **moves}, statuses=DECLARATION["statuses"])
    prepared(case, order, n=4, m=2)
    case.ground.put(order, "c", "NEW", n=4, m=3)
    await case.own.begin()
    assert isinstance(await case.db.move(order.moves["pack"], "a", where=sql("m = {m}", m=2)), Moved)
    refused = await case.db.move(order.moves["pack"], "c")
    assert isinstance(refused, Refused)
    assert refused.unmet == ("m % {d} = 0",)
    outcomes = [answer.outcome for answer in await case.db.move_many(order.moves["pack"], ["b", "c"])]
    assert outcomes == ["moved", "refused"]
    await case.own.commit()


@pytest.mark.parametrize("case", POSTGRES, indirect=True)
async def test_operators_that_look_like_placeholders_work_on_postgresql(case: Case) -> None:
    """JSON's question mark, arrays, casts and regular expressions are all the caller's SQL."""
    order = orders()
    case.ground.table(order, {"data": "jsonb"})
    case.ground.put(order, "a", "NEW", data='{"k": {"x%": 1}}')
    await case.own.begin()
    where = [
        sql("""data ? 'k' AND data @> '{{"k": {{}}}}'"""),
        sql("(data #>> ARRAY['k', {name}::text])::int = {n}", name="x%", n=1),
        sql("data::text ~ '^.{{5,}}%'"),
        sql("data::text = ANY ({texts}::text[]) IS FALSE", texts=["%s", "{}"]),
    ]
    answer = await case.db.move(order.moves["pack"], "a", where=where)
    assert isinstance(answer, Moved), str(answer)
    await case.own.commit()
