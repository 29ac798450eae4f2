"""Scripts are made of what they use, and of nothing else."""

import math

from raceproof.lua import Expression, arguments, constants_of, in_turn, script

FILE = """-- A script.
-- for: all
local answer = {column, limit, 'column', row.column}
local guarded = true -- if: guards
local guarded = false -- if: not guards
both(texts) -- if: guards history
neither() -- if: not guards history
-- for: history
note(stream, name)
-- for: guards serial
guard(open, texts) -- nothing of: unused
"""
CONSTANTS = {
    "column": "it's",
    "limit": math.inf,
    "stream": None,
    "name": "a",
    "open": {"NEW": True},
    "texts": ("a", "b"),
    "unused": 1,
}


def body(made: str) -> list[str]:
    """The lines after those that tell the constants."""
    return made.removeprefix(constants_of(made)).strip().splitlines()


def test_a_section_is_there_if_one_of_its_names_is_wanted() -> None:
    """What is for all is always there."""
    plain = script([FILE], CONSTANTS, [])
    assert ("answer" in plain, "note(" in plain, "guard(" in plain) == (True, False, False)
    lined = script([FILE], CONSTANTS, ["serial", "unknown"])
    assert ("answer" in lined, "note(" in lined, "guard(" in lined) == (True, False, True)


def test_a_line_is_there_if_all_that_it_names_is_wanted_and_nothing_that_it_excludes() -> None:
    """A condition is no part of the script."""
    assert body(script([FILE], CONSTANTS, []))[1:] == ["local guarded = false", "neither()"]
    assert body(script([FILE], CONSTANTS, ["guards"]))[1:2] == ["local guarded = true"]
    assert body(script([FILE], CONSTANTS, ["guards", "history"]))[1:3] == [
        "local guarded = true",
        "both(texts)",
    ]
    assert "neither" not in script([FILE], CONSTANTS, ["history"])


def test_a_word_of_the_declaration_stands_for_its_value() -> None:
    """In code alone: not in a text, a comment, or the field of a table."""
    made = body(script([FILE], CONSTANTS, ["history"]))
    assert made[0] == "local answer = {'it\\039s', math.huge, 'column', row.column}"
    assert made[-1] == "note(false, 'a')"


def test_only_constants_that_are_used_are_told() -> None:
    """A table is made once in a run; a comment uses nothing."""
    assert constants_of(script([FILE], CONSTANTS, [])).splitlines() == [
        "-- column = 'it\\039s'",
        "-- limit = math.huge",
    ]
    assert constants_of(script([FILE], CONSTANTS, ["guards", "history"])).splitlines()[2:] == [
        "-- stream = false",
        "-- name = 'a'",
        "local open = {['NEW'] = true}",
        "local texts = {'a', 'b'}",
    ]


def test_a_caller_s_values_are_read_where_they_are() -> None:
    """By their names, one or several in turn."""
    words = {**arguments(("by", "limit")), "fields": in_turn(["status", Expression("ARGV[3]"), 7])}
    made = script(["-- for: all\ncall(by, limit, fields)\n"], words, [])
    assert body(made) == ["call(ARGV[1], ARGV[2], 'status', ARGV[3], 7)"]
