"""What the tests of leaders share: a lease, and a lamp that only a leader may switch."""

from raceproof import AsyncStore, Lease, LeaseGranted, Lifecycle
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import fresh_name
from tests.promises.race.beside import beside
from tests.promises.race.places import Place

SHORT = 0.4
LONG = 600.0
"""Longer than anybody waits: who leads before its end did not wait for it."""


def prepared(place: Place, seconds: float) -> tuple[Lease, Spec[str]]:
    """A lease, and a lamp that only a leader may switch."""
    lease = Lease("bot", seconds, fresh_name("leases"))
    lamp = Lifecycle.from_dict(
        {
            "name": "Lamp",
            "table": fresh_name("lamps"),
            "statuses": ["on", "off"],
            "revision": "rev",
            "history": fresh_name("history"),
            "moves": {
                "switch_on": {"from": ["off"], "to": "on", "sets": ["epoch"]},
                "switch_off": {"from": ["on"], "to": "off", "sets": ["epoch"]},
            },
        }
    )
    with beside(place) as ground:
        ground.lease_table(lease.table)
        ground.table(lamp)
        ground.put(lamp, "lamp", "off")
    return lease, lamp


async def take_away(db: AsyncStore, lease: Lease) -> LeaseGranted:
    """An operator ends whatever lead there is and leads instead, until it steps down."""
    found = await db.lease_holder(lease)
    if found.by is not None:
        await db.release_lease(LeaseGranted(lease, found.by, found.epoch, 0.0))
    answer = await db.acquire_lease(lease, "operator")
    assert isinstance(answer, LeaseGranted)
    return answer
