"""Where the rows of a claim wait on Redis and Valkey: the keys of its index and its lines, and how a row leaves them.

A claim keeps its index, and a move that ends a claim takes the row out of it, in the same script; see `leave.lua`.
"""

from typing import Any

from raceproof.spec import Claimable
from raceproof.statement import source

LEAVE = source("raceproof.moves", "leave.lua")
COUNTING = source("raceproof.moves", "counting.lua")


def index_key(claim: Claimable[Any]) -> str:
    """The sorted set in which the rows of a claim wait."""
    return claim.topic


def lines_key(claim: Claimable[Any]) -> str:
    """The hash that names the line of each row that waits, of a claim with lines; '' for one that stands alone."""
    return f"{index_key(claim)}/lines"


def line_key(claim: Claimable[Any], value: str | None, member: str) -> str:
    """The line of rows with this value, of one tenant; of a row without a value a name that nothing is kept under."""
    if value is None:
        return f"{index_key(claim)}/alone:{member}"
    tenant = member.partition(":")[0] + ":" if claim.lifecycle.tenant else ""
    return f"{index_key(claim)}/line:{tenant}{value}"


def places(claim: Claimable[Any]) -> dict[str, str | None]:
    """The constants of `leave.lua`."""
    return {
        "index": index_key(claim),
        "lines": lines_key(claim),
        "row_prefix": f"{claim.lifecycle.table}:",
        "serial": claim.serial,
    }
