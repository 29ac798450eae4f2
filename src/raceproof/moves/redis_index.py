"""Where the rows of a claim wait on Redis and Valkey: the keys of its index and its lines, and how a row leaves them.

A claim keeps its index, and a move that ends a claim takes the row out of it, in the same script; see `leave.lua`.
"""

from typing import Any

from raceproof.spec import Claimable
from raceproof.statement import source

LEAVE = source("raceproof.moves", "leave.lua")


def index_key(claim: Claimable[Any]) -> str:
    """The sorted set in which the rows of a claim wait."""
    return claim.topic


def line_key(claim: Claimable[Any], value: str | None, member: str) -> str:
    """The line of rows with this value; a row without one has a line of its own."""
    return f"{index_key(claim)}/alone:{member}" if value is None else f"{index_key(claim)}/line:{value}"


def places(claim: Claimable[Any]) -> dict[str, str | None]:
    """The constants of `leave.lua`."""
    return {
        "index": index_key(claim),
        "row_prefix": f"{claim.lifecycle.table}:",
        "serial": claim.serial,
    }
