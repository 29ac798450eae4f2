"""A connection on which a backslash could end a quoted text is refused, whichever driver it belongs to."""

from typing import Any

import pytest

from raceproof import connect
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.orders import orders
from tests.integrations.own.fix_kinds import POSTGRES_IN_TRANSACTION, Case

KINDS = (*POSTGRES_IN_TRANSACTION, "sqlalchemy-psycopg-AUTOCOMMIT")


def _without_the_setting(url: str) -> str:
    """The same database, for a session in which backslashes are escapes."""
    return f"{url}{'&' if '?' in url else '?'}options=-c%20standard_conforming_strings%3Doff"


@pytest.mark.parametrize("case", KINDS, indirect=True)
async def test_no_statement_is_sent_while_backslashes_are_escapes(case: Case) -> None:
    """Also where the caller turns it off after bind; turned on again, the same store works."""
    order = orders()
    case.ground.table(order)
    case.ground.put(order, "a", "NEW")
    await case.own.run("SET standard_conforming_strings = off")
    with pytest.raises(CallError, match="standard_conforming_strings = off"):
        await case.db.move(order.moves["pack"], "a")
    assert case.ground.get(order, "a")["status"] == "NEW"
    await case.own.run("SET standard_conforming_strings = on")
    assert (await case.db.move(order.moves["pack"], "a")).outcome == "moved"


async def test_a_store_of_its_own_refuses_such_a_role_with_the_way_out(empty_postgres: str) -> None:
    url = _without_the_setting(empty_postgres)
    spec: Any = orders()
    with connect(url) as db, pytest.raises(CallError, match="ALTER ROLE"):
        db.read(spec, "a")
    with pytest.raises(CallError, match="ALTER ROLE"):
        await connect(url)
