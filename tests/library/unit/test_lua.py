"""Scripts are made of what they use, and of nothing else."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import raceproof
from raceproof.kernel import lua
from raceproof.kernel.lua import Expression, arguments, constants_of, in_turn, script
from raceproof.kernel.statement import source
from raceproof.testing import ValkeyServer

FILE = """-- A script.

-- the time
local moment = given_now or clock()

local function note(name)
  return {stream, name, 'column', row.column}
end

-- Never called.
local function unused()
  return 1
end

local function start(row)
  local found = {column, limit}
  -- what happened is kept
  if history then
    note(moment)
  end
  if not history and indexed then
    return indexed
  end
  -- the next
  if revision_column then
    if given_now then
      found = texts
    end
  end
  if found[1] then
    return {found[1]}
  end
  return open[row]
end
"""
CONSTANTS: dict[str, Any] = {
    "given_now": None,
    "column": "it's",
    "limit": math.inf,
    "stream": None,
    "history": False,
    "indexed": True,
    "revision_column": None,
    "open": {"NEW": True},
    "texts": ("a", "b"),
    "unused_constant": 1,
}
FILES = (("nowhere", "file.lua"),)
PACKAGE = Path(raceproof.__file__).parent


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lua._definitions.cache_clear()
    monkeypatch.setattr(lua, "source", lambda package, file: FILE if package == "nowhere" else source(package, file))
    yield
    lua._definitions.cache_clear()


def body(made: str) -> str:
    """What follows the lines that tell the constants."""
    return made.removeprefix(constants_of(made)).strip()


def test_a_function_that_nothing_calls_is_left_out() -> None:
    """Nor is a variable that nothing reads."""
    made = body(script(FILES, "start", CONSTANTS))
    assert "unused" not in made
    assert "note" not in made
    assert "moment" not in made
    assert made.endswith("return start()")


def test_a_block_is_left_out_if_its_condition_is_false() -> None:
    """With the comment above it; what is inside of it counts for nothing."""
    made = body(script(FILES, "start", CONSTANTS))
    assert "what happened" not in made
    assert "the next" not in made
    kept = body(script(FILES, "start", {**CONSTANTS, "history": True}))
    assert "  -- what happened is kept\n  note(moment)\n" in kept
    assert "indexed" not in kept


def test_a_block_that_returns_keeps_its_condition() -> None:
    """A return may only be the last statement of its block."""
    made = body(script(FILES, "start", CONSTANTS))
    assert "  if not false and true then\n    return true\n  end\n" in made


def test_only_the_server_can_say_whether_a_row_has_something() -> None:
    """A condition over variables stays as it is."""
    assert "  if found[1] then\n    return {found[1]}\n  end\n" in body(script(FILES, "start", CONSTANTS))


def test_blocks_within_blocks_are_decided_alone() -> None:
    """Each by its own condition."""
    named = {**CONSTANTS, "revision_column": "rev"}
    assert "found = texts" not in script(FILES, "start", named)
    given = script(FILES, "start", {**named, **arguments(["given_now"])})
    assert "  -- the next\n  found = texts\n" in given


def test_a_name_of_the_declaration_stands_for_its_value() -> None:
    """In code alone: not in a text, a comment, or the field of a table."""
    made = body(script(FILES, "start", {**CONSTANTS, "history": True}))
    assert "local found = {'it\\039s', math.huge}" in made
    assert "return {false, name, 'column', row.column}" in made


def test_only_constants_that_are_used_are_listed() -> None:
    """A table is made once in a run."""
    assert constants_of(script(FILES, "start", CONSTANTS)).splitlines() == [
        "-- column = 'it\\039s'",
        "-- limit = math.huge",
        "-- history = false",
        "-- indexed = true",
        "local open = {['NEW'] = true}",
    ]


def test_a_caller_s_values_are_read_where_they_are() -> None:
    """By their names, one or several in turn."""
    words = {
        **CONSTANTS,
        **arguments(("by", "given_now")),
        "column": in_turn(["status", Expression("ARGV[3]"), 7]),
    }
    made = body(script(FILES, "start", {**words, "history": True}))
    assert "local moment = ARGV[2] or clock()" in made
    assert "local found = {'status', ARGV[3], 7, math.huge}" in made


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.lua")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_file_is_lua(path: Path, valkey_server: ValkeyServer) -> None:
    """The server's own parser reads it, as it is in the repository."""
    with redis.Redis.from_url(valkey_server.url) as client:
        parse = "local made, why = loadstring(ARGV[1]); return why or 'well'"
        assert client.eval(parse, 0, path.read_text(encoding="utf-8")) == b"well"
