"""A lifecycle is declared once and checked when it is declared (L1)."""

from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from raceproof import DeclarationError, Lifecycle, column, move, sql
from raceproof.declare import History, Spec, spec_of
from raceproof.kernel.errors import CallError


class Status(StrEnum):
    NEW = "NEW"
    SENT = "SENT"
    DONE = "DONE"


class Parcel(Lifecycle[Status], table="shop.parcels", key=("shop", "number"), revision="rev", history=History()):
    send = move(Status.NEW, to=Status.SENT, stamp="sent_at", sets=("carrier",))
    finish = move(Status.NEW, Status.SENT, to=Status.DONE, where=[column("paid") == 1, sql("weight < {most}", most=9)])


PARCEL: dict[str, Any] = {
    "name": "Parcel",
    "table": "shop.parcels",
    "key": ["shop", "number"],
    "column": "status",
    "statuses": ["NEW", "SENT", "DONE"],
    "initial": ["NEW"],
    "terminal": ["DONE"],
    "revision": "rev",
    "history": {"table": "raceproof_history", "losers": False},
    "moves": {
        "send": {"from": ["NEW"], "to": "SENT", "stamp": ["sent_at"], "sets": ["carrier"]},
        "finish": {
            "from": ["NEW", "SENT"],
            "to": "DONE",
            "where": [["paid", "=", 1], ["weight < {most}", "sql", {"most": 9}]],
        },
    },
}


def test_class_and_dict_declare_the_same() -> None:
    """One frozen spec, one hash, whichever way it was written."""
    assert Parcel.spec.to_dict() == PARCEL
    assert Lifecycle.from_dict(PARCEL).hash == Parcel.spec.hash


def test_a_toml_file_declares_the_same(tmp_path: Path) -> None:
    """For lifecycles that live beside the code."""
    path = tmp_path / "parcel.toml"
    path.write_text(
        """
        name = "Parcel"
        table = "shop.parcels"
        key = ["shop", "number"]
        statuses = ["NEW", "SENT", "DONE"]
        revision = "rev"
        history = "raceproof_history"
        [moves.send]
        from = "NEW"
        to = "SENT"
        stamp = "sent_at"
        sets = "carrier"
        [moves.finish]
        from = ["NEW", "SENT"]
        to = "DONE"
        where = [["paid", "=", 1], ["weight < {most}", "sql", {most = 9}]]
        """
    )
    assert Lifecycle.from_toml(path).hash == Parcel.spec.hash


def test_any_change_of_meaning_changes_the_hash() -> None:
    """It is what drift is noticed by."""
    hashes = {Parcel.spec.hash}
    for change in ({"table": "parcels"}, {"revision": "r"}, {"initial": ["SENT", "NEW"]}, {"fence": "fence"}):
        hashes.add(Lifecycle.from_dict({**PARCEL, **change}).hash)
    assert len(hashes) == 5


def test_moves_know_their_lifecycle_and_their_statuses() -> None:
    """Statuses are members of the enum, not texts that look like them."""
    assert Parcel.finish.lifecycle is Parcel.spec
    assert Parcel.finish.sources == (Status.NEW, Status.SENT)
    assert str(Parcel.finish) == "Parcel.finish"
    assert Parcel.spec.terminal == (Status.DONE,)
    assert Parcel.spec.moves_from == {
        Status.NEW: ("send", "finish"),
        Status.SENT: ("finish",),
        Status.DONE: (),
    }


def changed(**changes: Any) -> dict[str, Any]:
    return {**PARCEL, **changes}


def with_move(**one: Any) -> dict[str, Any]:
    return changed(moves={**PARCEL["moves"], "extra": one})


MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("terminal status 'DONE' has a way out: extra", with_move(**{"from": ["DONE"], "to": "NEW"})),
    (
        "'SENT' has no way out",
        changed(moves={k: v for k, v in PARCEL["moves"].items() if k == "send"}, terminal=[]),
    ),
    (
        "'LOST' cannot be reached from NEW",
        changed(statuses=["NEW", "SENT", "DONE", "LOST"], terminal=["DONE", "LOST"]),
    ),
    ("moves send and extra are the same", with_move(**{"from": ["NEW"], "to": "SENT"})),
    ("move extra leads from 'NEW' to itself", with_move(**{"from": ["NEW"], "to": "NEW"})),
    ("move extra has no source", with_move(**{"from": [], "to": "SENT"})),
    ("move extra names 'GONE'", with_move(**{"from": ["NEW"], "to": "GONE"})),
    ("move extra names a source twice", with_move(**{"from": ["SENT", "SENT"], "to": "NEW"})),
    ("may not write 'status'", with_move(**{"from": ["SENT"], "to": "NEW", "sets": ["status"]})),
    ("may not write 'rev'", with_move(**{"from": ["SENT"], "to": "NEW", "stamp": ["rev"]})),
    ("writes 'x' twice", with_move(**{"from": ["SENT"], "to": "NEW", "stamp": ["x"], "sets": ["x"]})),
    ("column 'number' has two roles", changed(revision="number")),
    ("'GONE' is not one of its statuses", changed(initial=["GONE"])),
    ("it has no moves", changed(moves={}, statuses=["NEW"], terminal=["NEW"])),
    ("statuses must be given, each once", changed(statuses=["NEW", "NEW"])),
    ("unknown setting colum", changed(colum="status")),
    ("unknown setting too", with_move(**{"from": ["SENT"], "to": "NEW", "too": 1})),
    ("moves is missing", {key: value for key, value in PARCEL.items() if key != "moves"}),
    ("needs a name", changed(name="")),
    ("must not contain a NUL", changed(column="a\0b")),
    ("must be valid Unicode", changed(column="\ud800")),
    ("must not be empty", changed(column="")),
    ("write it as table", changed(table="a..b")),
    ("never closed", changed(table='"a')),
    ("is not a predicate", with_move(**{"from": ["SENT"], "to": "NEW", "where": [["a", "like", "b"]]})),
    ("must be text", changed(statuses=["NEW", 5])),
]


@pytest.mark.parametrize(("problem", "declaration"), MISTAKES, ids=[problem for problem, _ in MISTAKES])
def test_a_declaration_that_cannot_work_does_not_import(problem: str, declaration: dict[str, Any]) -> None:
    """The error names the lifecycle or the setting and what is wrong with it."""
    with pytest.raises(DeclarationError, match=problem.replace(".", r"\.")):
        Lifecycle.from_dict(declaration)


def test_all_problems_are_told_at_once() -> None:
    """So that a declaration is mended once."""
    with pytest.raises(DeclarationError) as caught:
        Lifecycle.from_dict(with_move(**{"from": ["DONE", "GONE"], "to": "NOWHERE"}))
    assert str(caught.value).count(";") >= 2


def test_a_class_needs_its_statuses_as_an_enum() -> None:
    """A plain Lifecycle[str] says nothing."""
    with pytest.raises(DeclarationError, match="name its statuses as an Enum with text values or as a Literal"):
        type("Nameless", (Lifecycle,), {"go": move("A", to="B")}, table="t")


def test_a_lifecycle_is_never_made_into_an_object() -> None:
    """It is a declaration."""
    with pytest.raises(TypeError, match="is a declaration"):
        Parcel()


def test_a_move_outside_of_a_lifecycle_cannot_be_called() -> None:
    """It has no table to go to."""
    with pytest.raises(CallError, match="belongs to no lifecycle"):
        _ = move("A", to="B").lifecycle


def test_spec_of_takes_both_forms_and_nothing_else() -> None:
    """Whoever passes something else is told what to pass."""
    spec: Spec[Any] = Parcel.spec
    assert spec_of(Parcel) is spec is spec_of(spec)
    with pytest.raises(CallError, match="not a lifecycle"):
        spec_of(object)  # type: ignore[arg-type]


def test_a_broken_toml_file_is_named(tmp_path: Path) -> None:
    """With the place of the mistake."""
    path = tmp_path / "broken.toml"
    path.write_text("name = ")
    with pytest.raises(DeclarationError, match=r"broken\.toml"):
        Lifecycle.from_toml(path)
