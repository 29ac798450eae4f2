"""Values match what the columns of an ORM store: every key and value type, on SQLite and PostgreSQL (L3, L24)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from raceproof import Already, Claim, Missing, Moved, Refused, column, sql
from tests.integrations.own.fix_orm import (
    DJANGO_KEYS,
    DJANGO_VALUES,
    SQLALCHEMY_KEYS,
    SQLALCHEMY_VALUES,
    Mapped,
    django_table,
    sqlalchemy_table,
)

Make = Callable[[Any, Any], Mapped]
WHERE = ["sqlite", "postgres"]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a mapped table on the ORM and database that the test asks for."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    orm, database = request.param
    path = tmp_path / "orm.db" if database == "sqlite" else None
    url = f"sqlite:///{path}" if path else request.getfixturevalue("postgres_server").url
    with ExitStack() as stack:

        def made(key: Any, value: Any) -> Mapped:
            if orm == "django":
                return stack.enter_context(django_table(url, path, key, value))
            driver = url if path else url.replace("postgresql://", "postgresql+psycopg://")
            return stack.enter_context(sqlalchemy_table(driver, key, value))

        yield made


def cases(sqlalchemy: dict[str, Any], django: dict[str, Any]) -> pytest.MarkDecorator:
    """Each type of each ORM on each database."""
    return pytest.mark.parametrize(
        ("make", "kind"),
        [
            pytest.param((orm, database), types[name], id=f"{orm}-{database}-{name}")
            for orm, types in (("sqlalchemy", sqlalchemy), ("django", django))
            for database in WHERE
            for name in types
        ],
        indirect=["make"],
    )


ORMS = pytest.mark.parametrize(
    "make",
    [pytest.param((orm, where), id=f"{orm}-{where}") for orm in ("sqlalchemy", "django") for where in WHERE],
    indirect=True,
)
TEXT = {"sqlalchemy": SQLALCHEMY_VALUES["text"][0], "django": DJANGO_VALUES["text"][0]}


def text_value(request: pytest.FixtureRequest) -> Any:
    return TEXT[request.node.callspec.params["make"][0]]


@cases(SQLALCHEMY_KEYS, DJANGO_KEYS)
def test_a_row_is_found_by_the_key_that_the_orm_gave_it(
    make: Make, kind: tuple[Any, Any, Any], request: pytest.FixtureRequest
) -> None:
    """Moved, read, claimed, renewed, released and finished; a claim's key is one that the ORM takes."""
    key_type, first, second = kind
    table = make(key_type, text_value(request))
    db, spec = table.db, table.spec
    table.put(first, "one")
    table.put(second, "two")
    (claim,) = db.claim(spec.claims["work"], 1, by="ann", where=column("value") == "one", returning=["id"])
    assert (claim.key, claim.row) == (first, {"id": first})
    assert type(claim.key) is type(first)
    assert [held.key for held in db.claims(spec.claims["work"])] == [first]
    (renewed,) = db.renew(claim)
    assert isinstance(renewed, Claim)
    assert renewed.key == first
    assert [released.key for released in db.release(renewed)] == [first]
    again = db.claim_one(spec.claims["work"], first, by="bob")
    assert again.key == first
    assert isinstance(db.move(spec.moves["finish"], again, set={"value": "done"}), Moved)
    assert isinstance(db.move(spec.moves["finish"], first), Already)
    assert (table.get(first).status, table.get(first).value) == ("done", "done")
    row = db.read(spec, second)
    assert row is not None
    assert row["id"] == second
    (moved,) = db.move_many(spec.moves["finish"], where=column("value") == "two")
    assert (moved.key, type(moved.key)) == (second, type(second))
    both = db.move_many(spec.moves["start"], [first, second])
    assert [answer.outcome for answer in both] == ["refused", "refused"]
    assert [answer.key for answer in both] == [first, second]


@cases(SQLALCHEMY_VALUES, DJANGO_VALUES)
def test_a_value_is_written_guarded_and_returned_as_the_orm_would(
    make: Make, kind: tuple[Any, Any, Any], request: pytest.FixtureRequest
) -> None:
    """What a move sets reads the same through the ORM, and what the ORM wrote fits a guard."""
    value_type, before, after = kind
    key_type = (SQLALCHEMY_KEYS if request.node.callspec.params["make"][0] == "sqlalchemy" else DJANGO_KEYS)["integer"][
        0
    ]
    table = make(key_type, value_type)
    for key in (1, 2, 3):
        table.put(key, before)
    finish = table.spec.moves["finish"]
    answer = table.db.move(finish, 1, set={"value": after}, returning=["value"])
    assert isinstance(answer, Moved)
    assert _plain(answer.row["value"]) == after
    assert table.get(1).value == after
    many = table.db.move_many(finish, {2: {"value": after}, 3: {"value": None}})
    assert [one.outcome for one in many] == ["moved", "moved"]
    assert table.get(2).value == after
    assert table.get(3).value is None
    assert table.get(1).ended_at.year >= 2026


@cases(
    {name: kind for name, kind in SQLALCHEMY_VALUES.items() if name not in ("json", "cleaned-json")},
    {name: kind for name, kind in DJANGO_VALUES.items() if name != "json"},
)
def test_a_guard_fits_what_the_orm_wrote(
    make: Make, kind: tuple[Any, Any, Any], request: pytest.FixtureRequest
) -> None:
    """With `column` where it takes such values, with `sql` in any case; another value is refused."""
    value_type, right, wrong = kind
    orm = request.node.callspec.params["make"][0]
    table = make((SQLALCHEMY_KEYS if orm == "sqlalchemy" else DJANGO_KEYS)["integer"][0], value_type)
    table.put(1, right)
    start, finish = table.spec.moves["start"], table.spec.moves["finish"]
    if not isinstance(right, bool | bytes) and type(right).__name__ not in ("time", "timedelta"):
        refused = table.db.move(start, 1, where=column("value") == wrong)
        assert isinstance(refused, Refused), refused
        assert len(refused.unmet) == 1
        assert table.db.claim(table.spec.claims["work"], where=column("value") == wrong) == []
        (claim,) = table.db.claim(table.spec.claims["work"], where=column("value") == right)
        table.db.release(claim)
    if type(right).__name__ != "Color":  # whose type only the column knows
        assert isinstance(table.db.move(start, 1, where=sql("t.value = {v}", v=wrong)), Refused)
        assert isinstance(table.db.move(finish, 1, where=sql("t.value = {v}", v=right)), Moved)


@ORMS
def test_a_stamp_fits_a_guard_with_the_moment_that_the_orm_read(make: Make, request: pytest.FixtureRequest) -> None:
    """A stamp has three digits of a second and the ORM writes six or none: the moment counts, not its spelling."""
    orm = request.node.callspec.params["make"][0]
    keys = SQLALCHEMY_KEYS if orm == "sqlalchemy" else DJANGO_KEYS
    table = make(keys["integer"][0], text_value(request))
    table.put(1, "one")
    finish = table.spec.moves["finish"]
    assert table.db.move(finish, 1).won
    ended = table.get(1).ended_at
    assert isinstance(table.db.move(finish, 1, where=column("ended_at") == ended), Already)
    later = ended.replace(year=ended.year + 1)
    assert isinstance(table.db.move(finish, 1, where=column("ended_at") == later), Refused)
    assert isinstance(table.db.move(finish, 1, where=column("ended_at") < later), Already)


@ORMS
def test_a_key_that_is_not_there_is_missing(make: Make, request: pytest.FixtureRequest) -> None:
    """The types change nothing about a row that does not exist."""
    orm = request.node.callspec.params["make"][0]
    keys = SQLALCHEMY_KEYS if orm == "sqlalchemy" else DJANGO_KEYS
    table = make(keys["uuid"][0], text_value(request))
    _, first, second = keys["uuid"]
    table.put(first, "one")
    assert isinstance(table.db.move(table.spec.moves["start"], second), Missing)
    assert table.db.read(table.spec, second) is None


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
