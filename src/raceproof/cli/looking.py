"""How one delivery stands, by its key: read on every kind of store, by the store's clock, and nothing is written."""

from raceproof import Delivery, Store
from raceproof.cli.keys import Key
from raceproof.deliveries import turn_request
from raceproof.statement import reading


def delivery_state(store: Store, delivery: Delivery, key: Key) -> str | None:
    """The state in words; None if there is no such row."""
    asked = turn_request(delivery, key, tenant=store._tenant)
    return store._driver.run(reading(store._driver.primitives.deliveries.look(asked)))
