"""Any names of tables and columns (L3), through every style of placeholder and both kinds of quick path."""

from typing import Any

import pytest

from raceproof import Lifecycle, Moved, Refused, sql
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.orders import DECLARATION
from tests.integrations.own.fix_kinds import Case

STYLES = (
    "asyncpg",
    "psycopg-autocommit",
    "sqlalchemy-psycopg",
    "sqlalchemy-asyncpg",
    "django-postgres",
    "sqlite3",
    "sqlalchemy-sqlite",
    "django-sqlite",
)
"""One kind of connection for each way in which statements reach a database."""

ODD = {
    "quotes": "o\"d'd",
    "spaces": "Odd Name",
    "percent": "100% %s",
    "braces": "{odd} {{0}}",
    "placeholders": "$1?1:x\\",
    "unicode": "заказ",
    "keyword": "select",
}

pytestmark = pytest.mark.parametrize("case", STYLES, indirect=True)


def declared(odd: str) -> Spec[str]:
    """Every name that a declaration has, spelled oddly."""
    unique = fresh_name()
    quoted = '"' + (odd + unique).replace('"', '""') + '"'
    sets = f"{odd} set"
    return Lifecycle.from_dict(
        {
            **DECLARATION,
            "name": f"{odd} order",
            "table": quoted,
            "key": f"{odd} key",
            "column": f"{odd} status",
            "revision": f"{odd} rev",
            "fence": f"{odd} fence",
            "statuses": ["NEW", f"{odd} PACKED", "SENT"],
            "terminal": ["SENT"],
            "moves": {
                f"{odd} pack": {
                    "from": ["NEW"],
                    "to": f"{odd} PACKED",
                    "sets": [sets],
                    "stamp": [f"{odd} at"],
                },
                "send": {"from": ["NEW", f"{odd} PACKED"], "to": "SENT"},
            },
            "history": '"' + (odd + unique + "h").replace('"', '""') + '"',
        }
    )


def row(case: Case, order: Spec[str], key: str) -> tuple[Any, ...]:
    found = case.ground.get(order, key)
    return found[order.column], found[str(order.revision)]


@pytest.mark.parametrize("odd", list(ODD.values()), ids=list(ODD))
async def test_every_operation_works_with_odd_names(case: Case, odd: str) -> None:
    """Moving, losing, bulks, predicates, repeated calls, reading and history, on a table that is all odd."""
    order = declared(odd)
    pack, send = order.moves[f"{odd} pack"], order.moves["send"]
    case.ground.table(order)
    for key in ("a", "b", "c", "d"):
        case.ground.put(order, key, "NEW", **{str(order.fence): 7})
    await case.own.begin()
    values = {f"{odd} set": odd}
    moved = await case.db.move(
        pack, "a", set=values, fence=7, revision=0, by=odd, returning=[f"{odd} set", f"{odd} key"]
    )
    assert isinstance(moved, Moved)
    assert (moved.before, moved.status, moved.row) == (
        "NEW",
        f"{odd} PACKED",
        {f"{odd} set": odd, f"{odd} key": "a"},
    )
    assert (await case.db.move(pack, "a")).outcome == "already"
    assert isinstance(await case.db.move(send, "a", where=sql("1 = {n}", n=0)), Refused)
    answers = await case.db.move_many(pack, {"b": values, "nobody": values, "a": values})
    assert [answer.outcome for answer in answers] == ["moved", "missing", "already"]
    assert answers[2].by == odd
    (found,) = await case.db.move_many(send, where=sql("1 = {n}", n=1), limit=1, returning=[f"{odd} key"])
    assert (found.key, found.before) == ("a", f"{odd} PACKED")
    assert (await case.db.move(pack, "c", call=odd)).replayed is False
    assert (await case.db.move(pack, "c", call=odd)).replayed is True
    assert (await case.db.read(order, "c"))[f"{odd} status"] == f"{odd} PACKED"
    assert [entry.move for entry in await case.db.history(order, "a")] == ["send", f"{odd} pack"]
    await case.own.commit()
    assert [row(case, order, key) for key in "abc"] == [
        ("SENT", "2"),
        (f"{odd} PACKED", "1"),
        (f"{odd} PACKED", "1"),
    ]


@pytest.mark.parametrize("history", [False, True])
async def test_a_table_in_a_schema_is_found_by_its_whole_name(case: Case, history: bool) -> None:
    """A table of the same name elsewhere is not touched; on SQLite the schema is a database's."""
    sqlite = case.own.store.dialect == "sqlite"
    schema, name = "main" if sqlite else fresh_name("Schema"), fresh_name("orders")
    if not sqlite:
        case.ground.run(f'CREATE SCHEMA "{schema}"')
    named = {"table": f'"{schema}".{name}'} | ({"history": f'"{schema}".{name}_history'} if history else {})
    order = Lifecycle.from_dict({**DECLARATION, **named})
    decoy = Lifecycle.from_dict({**DECLARATION, "table": name})
    case.ground.table(order)
    if not sqlite:
        case.ground.table(decoy)
        case.ground.put(decoy, "a", "NEW")
    for key in "ab":
        case.ground.put(order, key, "NEW")
    await case.own.begin()
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)
    (answer,) = await case.db.move_many(order.moves["pack"], ["b"])
    assert isinstance(answer, Moved)
    assert (await case.db.read(order, "b"))["status"] == "PACKED"
    assert {finding.level for finding in await case.db.verify(order)} == {"ok", "warning"}
    await case.own.commit()
    assert case.ground.get(order, "a")["status"] == "PACKED"
    if not sqlite:
        assert case.ground.get(decoy, "a")["status"] == "NEW"
