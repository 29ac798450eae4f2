"""Common mistakes: each works, or fails with a message that says what to write instead."""

import logging
import re
import sqlite3
import types
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from raceproof import (
    Claim,
    DeclarationError,
    Lease,
    Lifecycle,
    Missing,
    Moved,
    Released,
    Store,
    bind,
    claimable,
    column,
    connect,
    move,
)
from raceproof.declare import History
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import log_to
from raceproof.kernel.shown import did_you_mean, shown_key, shown_moment
from tests.ddl import script

KEY = UUID("5448d865-0000-4000-8000-000000000000")


class Status(StrEnum):
    NEW = "new"
    PAID = "paid"
    SHIPPED = "shipped"


class Order(Lifecycle[Status], table="orders"):
    pay = move(Status.NEW, to=Status.PAID)
    ship = move(Status.PAID, to=Status.SHIPPED)
    pack = claimable(at=Status.PAID, lease=30)


class Plain(Lifecycle[Status], table="plain"):
    pay = move(Status.NEW, to=Status.PAID)
    ship = move(Status.PAID, to=Status.SHIPPED)


@pytest.fixture
def store() -> Iterator[Store]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(script(Lease("any"), dialect="sqlite"))
        yield bind(connection)


def declared(**settings: Any) -> Any:
    """A lifecycle by its class, with these settings."""
    names = {
        "ship": move(Status.NEW, Status.PAID, to=Status.SHIPPED),
        "pay": move(Status.NEW, to=Status.PAID),
    }
    bases = (Lifecycle[Status],)
    return types.new_class("Odd", bases, settings, lambda namespace: namespace.update(names))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (True, History()),
        ("kept", History("kept")),
        (History("kept", losers=True), History("kept", losers=True)),
    ],
)
def test_a_history_is_declared_by_true_by_a_name_or_whole(given: Any, expected: History) -> None:
    """True is the usual table."""
    assert declared(table="odd", history=given).spec.history == expected


@pytest.mark.parametrize("given", [None, False])
def test_no_history_is_declared_by_none_or_false(given: Any) -> None:
    """In a dict as in a class."""
    assert declared(table="odd", history=given).spec.history is None
    data = {**Plain.spec.to_dict(), "history": given}
    assert Lifecycle.from_dict(data).history is None
    assert Lifecycle.from_dict({**data, "history": True}).history == History()


@pytest.mark.parametrize("given", [1, ["kept"], object])
def test_what_is_not_a_history_is_refused(given: Any) -> None:
    """With what it may be."""
    with pytest.raises(DeclarationError, match=r"Odd: history must be True, the name of a table or History\(…\), got "):
        declared(table="odd", history=given)
    with pytest.raises(DeclarationError, match="history must be True"):
        Lifecycle.from_dict({**Plain.spec.to_dict(), "history": given})


def test_a_guard_as_text_is_quoted_whole() -> None:
    """And not by its first letter; the message has the same guard as it can be written."""
    said = re.escape("where='total > 5' is text; write sql('total > 5'), or column(…) with a comparison")
    with pytest.raises(DeclarationError, match=said):
        move(Status.NEW, to=Status.PAID, where="total > 5")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=said):
        claimable(at=Status.NEW, lease=5, where="total > 5")  # type: ignore[arg-type]
    assert move(Status.NEW, to=Status.PAID, where=column("total") > 5).where


def test_a_misspelled_setting_is_named_with_the_one_that_was_meant() -> None:
    """Of a class, and of a declaration as data."""
    with pytest.raises(DeclarationError, match=r"lifecycle Odd: there is no setting tabel=; did you mean table=\?"):
        declared(tabel="odd")
    with pytest.raises(DeclarationError, match=r"there is no setting xyz=$"):
        declared(table="odd", xyz=1)
    with pytest.raises(DeclarationError, match=r'lifecycle Odd: table= is missing, as in table="orders"'):
        declared()
    with pytest.raises(DeclarationError, match=r"unknown setting tenent; did you mean tenant\?; known are"):
        Lifecycle.from_dict({**Plain.spec.to_dict(), "tenent": "shop"})


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite", "sqlite+aiosqlite", "SQLite"])
def test_a_url_may_name_a_driver_as_sqlalchemys_does(scheme: str, tmp_path: Any) -> None:
    """The driver is ours to choose."""
    with connect(f"{scheme}:///{tmp_path}/odd.db") as db:
        assert db.dialect == "sqlite"


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql+asyncpg", "postgres+psycopg2"])
async def test_postgresql_is_reached_by_such_a_url(scheme: str, empty_postgres: str) -> None:
    """Sync and async alike."""
    url = scheme + "://" + empty_postgres.partition("://")[2]
    with connect(url) as db:
        assert db.dialect == "postgres"
    async with connect(url) as other:
        assert other.dialect == "postgres"


def test_a_scheme_that_is_not_known_is_an_error() -> None:
    """With or without a driver."""
    for url in ("mysql+pymysql://here", "mysql://here", "here"):
        with pytest.raises(CallError, match="connect does not know the scheme"):
            connect(url)


def test_a_key_is_shown_as_people_write_it() -> None:
    """A UUID by its digits, a text in quotes, several parts in parentheses."""
    assert shown_key(KEY) == "5448d865-0000-4000-8000-000000000000"
    assert shown_key("c-1") == "'c-1'"
    assert shown_key(("north", 7, KEY)) == f"('north', 7, {KEY})"


def test_no_answer_shows_how_python_makes_a_uuid() -> None:
    """They go to clients and into logs."""
    answers: list[Any] = [
        Moved(KEY, Order.pay, Status.NEW, None, None),
        Missing(KEY, Order.pay),
        Claim(KEY, Order.pack, 1, "worker", 1, Status.PAID, 0.0, None, None),
        Released(KEY, Order.pack, Status.PAID, 0.0),
    ]
    for answer in answers:
        assert str(KEY) in str(answer)
        assert "UUID(" not in str(answer)


def test_a_moment_is_shown_with_its_fraction() -> None:
    """Milliseconds as SQLite knows them, microseconds as PostgreSQL does; always in UTC."""
    moment = datetime(2026, 11, 18, 6, 5, 25, 123000, UTC)
    assert shown_moment(moment) == "2026-11-18 06:05:25.123 UTC"
    assert shown_moment(moment.replace(microsecond=123456)) == "2026-11-18 06:05:25.123456 UTC"
    there = moment.astimezone(timezone(timedelta(hours=2)))
    assert shown_moment(there) == "2026-11-18 06:05:25.123 UTC"


def test_a_tag_in_a_log_line_has_no_spaces(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """So that it can be searched for as one word."""
    stop = log_to(logging.getLogger("test_messages"))
    try:
        with caplog.at_level(logging.INFO, "test_messages"):
            leading: Any = store.acquire_lease(Lease("nightly"), by="a")
            store.release_lease(leading)
    finally:
        stop()
    tags = [record.getMessage().partition("]")[0] for record in caplog.records]
    assert tags[-1] == "[LEASE_RELEASED"
    assert not any(" " in tag for tag in tags)


def test_the_first_leader_takes_over_from_no_one(store: Store) -> None:
    """Only the next one does, and only that counts as a change of leaders."""
    leading: Any = store.acquire_lease(Lease("nightly"), by="a")
    assert (leading.taken_over, leading.outcome) == (False, "granted")
    assert str(leading) == f"a holds lease nightly in epoch {leading.epoch}"
    assert str(store.renew_lease(leading)) == f"a holds lease nightly in epoch {leading.epoch}"


def test_a_move_in_the_place_of_a_claim_is_told_from_it(store: Store) -> None:
    """And the other way round; nothing of the inside is shown."""
    for work in (store.claim, store.claims):
        with pytest.raises(
            CallError, match=r"^Order.pay is a move, and this takes a claim; its claims are Order.pack$"
        ):
            work(Order.pay, 1)  # type: ignore[arg-type]
    with pytest.raises(CallError, match=r"^Plain.pay is a move, and this takes a claim; its lifecycle declares none$"):
        store.claim(Plain.pay, 1)  # type: ignore[arg-type]
    with pytest.raises(CallError, match=r"^Order.pack is a claim, and this takes a move; its moves are pay, ship$"):
        store.move(Order.pack, 1)  # type: ignore[call-overload]


def test_a_declaration_is_shown_by_its_name() -> None:
    """Wherever a message shows what it was given."""
    assert [repr(one) for one in (Order.pay, Order.pack, Order.spec)] == [
        "<move Order.pay>",
        "<claim Order.pack>",
        "<lifecycle Order>",
    ]


def test_the_closest_name_is_proposed() -> None:
    """None at all is better than a wild guess."""
    assert did_you_mean("lifecyles", ["sql", "lifecycles"]) == "; did you mean lifecycles?"
    assert did_you_mean("qqq", ["sql", "lifecycles"]) == ""
