"""Templates, placeholders and the two runners."""

from collections.abc import Generator
from typing import Any

import pytest

from raceproof.kernel.quoting import parameter
from raceproof.kernel.statement import Program, Rows, Statement, Template, arun, prepare, run


def test_parameters_are_written_in_each_style() -> None:
    """A parameter that stands twice is one in PostgreSQL, and two for drivers that count."""
    text = f"a = {parameter('x')} AND b = {parameter('y')} AND c = {parameter('x')} AND d LIKE '50%'"
    dollar, question, percent = (prepare("n", text, style) for style in ("dollar", "question", "format"))
    assert (dollar.text, dollar.order) == ("a = $1 AND b = $2 AND c = $1 AND d LIKE '50%'", ("x", "y"))
    assert (question.text, question.order) == (
        "a = ? AND b = ? AND c = ? AND d LIKE '50%'",
        ("x", "y", "x"),
    )
    assert (percent.text, percent.order) == (
        "a = %s AND b = %s AND c = %s AND d LIKE '50%%'",
        ("x", "y", "x"),
    )
    for counted in (question, percent):
        assert tuple(counted.bind({"x": 1, "y": 2}).params) == (1, 2, 1)
        assert tuple(counted.picking(("y", "x"))((2, 1)).params) == (1, 2, 1)


def test_a_line_with_an_empty_optional_slot_goes() -> None:
    """And one with an empty slot that is not optional stays."""
    template = Template("n", ["SELECT {columns}", "WHERE {$key} = k", "  AND {guards?}", "LIMIT 1{more}"])
    assert (
        template.prepare({"columns": "a", "guards": "", "more": ""}, "dollar").text == "SELECT a\nWHERE $1 = k\nLIMIT 1"
    )
    assert "AND x" in template.prepare({"columns": "a", "guards": "x", "more": ""}, "dollar").text


def test_braces_of_names_stay_braces() -> None:
    """A slot's value is not read again."""
    template = Template("n", ["SELECT {columns}"])
    assert template.prepare({"columns": '"{$x} {y} {{z}}"'}, "dollar").text == 'SELECT "{$x} {y} {{z}}"'


def _program() -> Program[str]:
    rows = yield Statement("one", "1")
    try:
        yield Statement("two", "2")
    except ValueError as error:
        return f"{rows[0][0]} {error}"
    return "never"


def _execute(statement: Statement) -> Rows:
    if statement.name == "two":
        raise ValueError("broken")
    return [("first",)]


async def test_both_runners_give_rows_and_errors_to_the_program() -> None:
    """The same program, the same result, sync and async."""

    async def execute(statement: Statement) -> Rows:
        return _execute(statement)

    assert run(_execute, _program()) == await arun(execute, _program()) == "first broken"


def test_an_error_that_a_program_does_not_want_passes_through() -> None:
    """As it is, not wrapped."""

    def program() -> Generator[Statement, Any, None]:
        yield Statement("two", "2")

    with pytest.raises(ValueError, match="broken"):
        run(_execute, program())
