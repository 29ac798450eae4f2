"""The lifecycle for the contract of moves: small, with a cycle, guards and terminal statuses."""

from typing import Any

from raceproof import Lifecycle
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import fresh_name

DECLARATION: dict[str, Any] = {
    "name": "Order",
    "key": "order_id",
    "statuses": ["NEW", "PACKED", "SENT", "RETURNED", "DONE", "FAILED"],
    "terminal": ["DONE", "FAILED"],
    "revision": "rev",
    "moves": {
        "pack": {"from": ["NEW", "RETURNED"], "to": "PACKED", "stamp": ["packed_at"], "sets": ["packer", "box"]},
        "send": {"from": ["PACKED"], "to": "SENT"},
        "take_back": {"from": ["SENT"], "to": "RETURNED"},
        "finish": {"from": ["SENT", "PACKED"], "to": "DONE"},
        "fail": {"from": ["NEW", "PACKED", "SENT", "RETURNED"], "to": "FAILED"},
    },
}


def orders(*, history: bool = False, losers: bool = False, **changes: Any) -> Spec[str]:
    """The lifecycle on a table of its own, on request with a history; `changes` go into the declaration."""
    if history or losers:
        changes["history"] = {"table": fresh_name("history"), "losers": losers}
    return Lifecycle.from_dict({"table": fresh_name("orders"), **DECLARATION, **changes})
