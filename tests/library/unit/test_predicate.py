"""Guards are declared in Python and decided in the store."""

import pytest

from raceproof import DeclarationError, column, sql
from raceproof.declare.predicate import Predicate, from_data, predicates, to_data

ALL: list[Predicate] = [
    column("a") == 1,
    column("a") != "x",
    column("a") < 2.5,
    column("a") <= 2,
    column("a") > 2,
    column("a") >= 2,
    column("a").is_null(),
    column("a").is_not_null(),
    sql("a < b"),
    sql("a < {x} AND tag = '{{}}'", x=5),
]


@pytest.mark.parametrize("predicate", ALL, ids=map(str, ALL))
def test_a_predicate_is_data_and_back(predicate: Predicate) -> None:
    """The dict and TOML form keep it whole."""
    again = from_data(to_data(predicate))
    assert to_data(again) == to_data(predicate)
    assert again.text("p") == predicate.text("p")


@pytest.mark.parametrize("predicate", ALL[:2], ids=str)
def test_a_comparison_has_no_truth_here(predicate: Predicate) -> None:
    """It would be a guard that is not in the write."""
    with pytest.raises(TypeError, match="decided in the store"):
        bool(predicate)


@pytest.mark.parametrize("value", [None, True, [1], object()])
def test_a_column_compares_with_text_and_numbers_alone(value: object) -> None:
    """For NULL there is is_null."""
    with pytest.raises(DeclarationError, match="compared with text, numbers"):
        _ = column("a") == value


@pytest.mark.parametrize(("fragment", "given"), [("a < {x}", {}), ("a", {"x": 1}), ("a < {", {})])
def test_sql_and_its_parameters_must_fit(fragment: str, given: dict[str, int]) -> None:
    """Before anything is sent."""
    with pytest.raises(DeclarationError, match="sql"):
        sql(fragment, **given)


def test_where_takes_predicates_alone() -> None:
    """A text is not one: it could be anything."""
    with pytest.raises(DeclarationError, match="where= takes"):
        predicates(["a = 1"])  # type: ignore[list-item]
