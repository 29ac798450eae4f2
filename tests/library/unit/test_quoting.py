"""Whatever is declared comes out as that name or that text, or as an error; nothing ends a quote early (security 8)."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raceproof import DeclarationError
from raceproof.kernel.quoting import identifier, literal, lua_literal, qualified, split_qualified

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@given(texts)
def test_a_literal_is_exactly_its_text(text: str) -> None:
    """Asked of a real SQL parser."""
    with sqlite3.connect(":memory:") as connection:
        assert connection.execute(f"SELECT {literal(text)}").fetchone() == (text,)
    connection.close()


@given(names)
def test_an_identifier_is_exactly_its_name(name: str) -> None:
    """Asked of a real SQL parser."""
    connection = sqlite3.connect(":memory:")
    cursor = connection.execute(f"SELECT 1 AS {identifier(name)}")
    assert cursor.description[0][0] == name
    connection.close()


@given(st.lists(names, min_size=1, max_size=3))
def test_a_quoted_table_name_is_split_into_its_parts(parts: list[str]) -> None:
    """Dots and quotes inside the quotes belong to the name."""
    name = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    assert split_qualified(name) == tuple(parts)
    assert qualified(name) == name


@pytest.mark.parametrize("bad", ["", ".", "a.", ".a", "a.b.c.d", '"a', '"a""'])
def test_a_table_name_that_is_none_is_an_error(bad: str) -> None:
    """It says how to write one."""
    with pytest.raises(DeclarationError, match="table name"):
        qualified(bad)


@pytest.mark.parametrize("quote", [identifier, literal, lua_literal])
@pytest.mark.parametrize("bad", ["a\0b", "\ud800", 5, None])
def test_what_no_database_can_hold_is_an_error(quote: object, bad: object) -> None:
    """Before any text is made of it."""
    with pytest.raises(DeclarationError):
        quote(bad)  # type: ignore[operator]
