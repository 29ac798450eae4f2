"""Statuses as an Enum of any kind or as a Literal: one meaning, and a clear refusal of what is not text."""

from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal

import pytest

from raceproof import DeclarationError, Lifecycle, claimable, column, move
from raceproof.declare.statuses import text_of_status
from raceproof.ops.diagram import mermaid, svg
from raceproof.ops.explain import explain
from tests.ddl import script


class Mixed(str, Enum):  # noqa: UP042
    NEW = "new"
    DONE = "done"


class Plain(Enum):
    NEW = "new"
    DONE = "done"


class Strings(StrEnum):
    NEW = "new"
    DONE = "done"


class Shouting(StrEnum):
    """A StrEnum that prints something else than what it is."""

    NEW = "new"
    DONE = "done"

    def __str__(self) -> str:
        return self.value.upper()


def declare(statuses: Any, new: Any, done: Any) -> Any:
    class Order(Lifecycle[statuses], table="orders", initial=new, terminal=[done]):
        finish = move(new, to=done)
        work = claimable(at=new, lease=30)

    return Order


ALL: list[Any] = [
    *(pytest.param(kind, kind.NEW, kind.DONE, id=kind.__name__) for kind in (Strings, Mixed, Plain, Shouting)),
    pytest.param(Literal["new", "done"], "new", "done", id="Literal"),
]


@pytest.mark.parametrize(("kind", "new", "done"), ALL)
def test_every_kind_declares_the_same_lifecycle(kind: Any, new: Any, done: Any) -> None:
    """The same hash, SQL and pictures, with the values everywhere."""
    model, order = declare(Strings, Strings.NEW, Strings.DONE), declare(kind, new, done)
    assert order.spec.hash == model.spec.hash
    assert order.spec.to_dict() == model.spec.to_dict()
    assert script(order.spec, dialect="postgres", only="guards") == script(
        model.spec, dialect="postgres", only="guards"
    )
    assert script(order.spec, dialect="sqlite", only="guards") == script(model.spec, dialect="sqlite", only="guards")
    assert mermaid(order.spec) == mermaid(model.spec)
    assert svg(order.spec) == svg(model.spec)


@pytest.mark.parametrize(("kind", "new", "done"), ALL)
def test_the_members_of_a_lifecycle_are_the_callers_own(kind: Any, new: Any, done: Any) -> None:
    order = declare(kind, new, done)
    assert order.finish.reaches is done
    assert order.spec.members == (new, done)
    assert order.spec.member("new") is new
    assert (text_of_status(new), text_of_status(done)) == ("new", "done")
    assert str(explain(order.spec, {"id": 1, "status": "new"}, done)) == str(
        explain(order.spec, {"id": 1, "status": "new"}, "done")
    )


class Numbers(IntEnum):
    NEW = 1
    DONE = 2


class Both(Enum):
    NEW = "new"
    DONE = 2


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Numbers, "got Numbers.NEW = 1 (int)"),
        (Both, "got Both.DONE = 2 (int)"),
        (Literal["new", 2], "got 2 (int)"),
        (Literal["new", None], "got None (NoneType)"),
    ],
)
def test_statuses_that_are_not_text_are_refused_with_what_was_given(kind: Any, given: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        declare(kind, "new", "done")
    assert str(caught.value) == (
        "lifecycle Order: statuses: a status must be text, or a member of an Enum whose values are text, " + given
    )


@pytest.mark.parametrize("kind", [str, int, list[str], Enum("Empty", [])], ids=["str", "int", "list", "empty"])
def test_what_lists_no_statuses_is_refused_with_what_was_given(kind: Any) -> None:
    with pytest.raises(
        DeclarationError, match="name its statuses as an Enum with text values or as a Literal"
    ) as caught:
        declare(kind, "new", "done")
    assert f"got {kind!r}" in str(caught.value)


def test_a_status_of_a_move_that_is_not_text_is_refused_with_what_was_given() -> None:
    with pytest.raises(DeclarationError, match=r"to: a status must be text, .* got 5 \(int\)"):
        move("new", to=5)  # type: ignore[type-var]
    with pytest.raises(DeclarationError, match=r"got Both.DONE = 2 \(int\)"):
        move(Both.DONE, to=Both.NEW)


def test_a_guard_compares_with_the_value_of_a_member() -> None:
    for member in (Strings.NEW, Mixed.NEW, Plain.NEW):
        guard = column("status") == member
        assert str(guard) == "status = 'new'"
        (value,) = guard.values("").values()
        assert type(value) is str
