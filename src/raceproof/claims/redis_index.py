"""Where the rows of a claim wait on Redis and Valkey, and how a claim ends that another process holds; see `leave.lua`.

A claim keeps its index, and a move that ends a claim takes the row out of it, in the same script.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from raceproof.declare.claim_forms import ClaimColumns, TextMarker
from raceproof.declare.spec import Claimable
from raceproof.kernel.lua import Expression, in_turn
from raceproof.kernel.quoting import lua_literal

SHARED_FILES = (
    ("raceproof.kernel", "guards.lua"),
    ("raceproof.kernel", "counting.lua"),
    ("raceproof.claims", "leave.lua"),
)


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


def places(claim: Claimable[Any]) -> dict[str, Any]:
    """The constants of `leave.lua` that say where rows wait."""
    return {"index": index_key(claim), "lines": lines_key(claim), "ordering_key": claim.ordering_key}


class EndedClaims(NamedTuple):
    """What a move writes to end claims that the caller does not hold."""

    held_by: str
    """Lua for who held the row, or false."""
    constants: dict[str, Any]
    """The constants of `end_claims` in `leave.lua`."""

    @classmethod
    def of(cls, ended: Sequence[Claimable[Any]], looked_at: list[str], written: Sequence[str]) -> "EndedClaims":
        """Adds to `looked_at` what has to be seen before; what the move writes itself is left alone."""
        held: list[str] = []
        columns: list[str] = []
        markers: dict[str, str] = {}
        fences: list[Any] = []
        for form in (claim.form for claim in ended):
            looked_at.append(form.holder if isinstance(form, ClaimColumns) else form.fence_column)
            found = f"found[{len(looked_at)}]"
            if isinstance(form, TextMarker):
                # any other text is an old error, and stays
                begins = lua_literal(form.prefix)
                held.append(f"({found} and string.sub({found}, 1, {len(form.prefix)}) == {begins} and {found})")
                markers |= {form.column: form.prefix} if form.column not in written else {}
                continue
            held.append(found)
            columns += [column for column in form.cleared if column not in written]
            if isinstance(form, ClaimColumns) and form.fence not in (*written, *fences):
                looked_at.append(form.fence)
                fences += (form.fence, Expression(f"grown(found[{len(looked_at)}], now)"))
        return cls(
            " or ".join((*held, "false")),
            {
                "ends_claims": bool(ended),
                "ends_columns": bool(columns),
                "ended_columns": in_turn(columns),
                "ends_markers": bool(markers),
                "ended_markers": markers,
                "ends_fences": bool(fences),
                "ended_fences": in_turn(fences),
            },
        )
