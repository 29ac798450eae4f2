"""Scripts are made of what they use, and of nothing else."""

import math

from raceproof.lua import constants_of, script

FILE = """-- A script.
-- for: all
local answer = {column, limit}
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


def test_a_section_is_there_if_one_of_its_names_is_wanted() -> None:
    """What is for all is always there."""
    plain = script([FILE], CONSTANTS, [])
    assert ("answer" in plain, "note(" in plain, "guard(" in plain) == (True, False, False)
    lined = script([FILE], CONSTANTS, ["serial", "unknown"])
    assert ("answer" in lined, "note(" in lined, "guard(" in lined) == (True, False, True)


def test_only_constants_that_are_used_are_there() -> None:
    """A comment uses nothing."""
    assert constants_of(script([FILE], CONSTANTS, [])) == "local column = 'it\\039s'\nlocal limit = math.huge"
    assert constants_of(script([FILE], CONSTANTS, ["guards", "history"])).splitlines()[2:] == [
        "local stream = false",
        "local name = 'a'",
        "local open = {['NEW'] = true}",
        "local texts = {'a', 'b'}",
    ]
