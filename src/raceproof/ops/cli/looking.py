"""How one delivery stands, by its key: read on every kind of store, by the store's clock, and nothing is written."""

from raceproof import Delivery, Store
from raceproof.deliveries.request import send_request
from raceproof.kernel.statement import reading
from raceproof.ops.cli.keys import Key


def delivery_state(store: Store, delivery: Delivery, key: Key) -> str | None:
    """The state in words; None if there is no such row."""
    asked = send_request(delivery, key, tenant=store.tenant)
    return store.run(reading(store.driver.programs.deliveries.look(asked)))
