"""A delivery on a table of its own, and helpers for `deliver_once` on sync and async stores."""

from contextlib import asynccontextmanager
from typing import Any

import pytest

from raceproof import AsyncStore, Delivery, Lifecycle, SendPermit
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import Ground, fresh_name

BOTH = pytest.mark.parametrize("told", [False, True], ids=["two timestamps", "all columns"])


def pictures(ground: Ground, told: bool, **changes: Any) -> tuple[Delivery, Spec[str]]:
    """A delivery on a table of its own, with two timestamps only or with every optional column."""
    columns = {"state": "state", "holder": "sender", "error": "send_error", "attempts": "tries"} if told else {}
    table = fresh_name("pictures")
    delivery = Delivery("picture", table, **{"key": "job_id", **columns, **changes})
    # grounds make tables from lifecycles; this lifecycle exists for its columns
    moves = {
        "a": {"from": ["x"], "to": "y", "stamp": ["delivering_at", "delivered_at"], "sets": list(columns.values())}
    }
    spec = Lifecycle.from_dict(
        {"name": "P", "table": table, "key": "job_id", "statuses": ["x", "y"], "column": "kind", "moves": moves}
    )
    ground.table(spec, {"tries": "integer"} if told else None)
    ground.put(spec, "a", "x")
    return delivery, spec


@asynccontextmanager
async def once(ground: Ground, delivery: Delivery, key: str, probe: Any = None, **options: Any) -> Any:
    """`deliver_once` of a sync or async store."""
    if probe is not None:
        options["probe"] = probe.asked_async if isinstance(ground.db.store, AsyncStore) else probe.asked
    block: Any = ground.db.store.deliver_once(delivery, key, **options)
    if hasattr(block, "__aenter__"):
        async with block as permit:
            yield permit
    else:
        with block as permit:
            yield permit


class Probe:
    """Asks the receiver: True, False or None for "cannot tell"; an exception is raised."""

    def __init__(self, found: bool | BaseException | None) -> None:
        self.found = found

    def asked(self, _: SendPermit) -> bool | None:
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found

    async def asked_async(self, permit: SendPermit) -> bool | None:
        return self.asked(permit)
