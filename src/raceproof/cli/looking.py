"""How one delivery stands, by its key: read on every kind of store, by the store's clock, and nothing is written."""

from typing import Any

from raceproof import Delivery, DeliveryState, Store
from raceproof.claims.postgres import PostgresWords
from raceproof.claims.sqlite import SqliteWords
from raceproof.cli.keys import Key
from raceproof.deliveries import sql, turn_request
from raceproof.deliveries.redis import script_of_delivery
from raceproof.deliveries.request import TurnRequest
from raceproof.moves.redis import text_of
from raceproof.moves.request import key_text
from raceproof.moves.sqlite import bindable
from raceproof.statement import Program, Rows, Statement, reading, templates
from raceproof.sweep.finding import now_text


def delivery_state(store: Store, delivery: Delivery, key: Key) -> str | None:
    """The state in words; None if there is no such row."""
    asked = turn_request(delivery, key, tenant=store._tenant)
    return store._driver.run(reading(_state(store, asked)))


def _state(store: Store, asked: TurnRequest) -> Program[str | None]:
    driver: Any = store._driver
    if driver.dialect == "redis":
        row = yield _script(asked, driver.moves.cluster)
        return text_of(row[1]) if row else None
    rows: Rows = yield _look(asked, driver)
    return str(rows[0][0]) if rows else None


def _look(asked: TurnRequest, driver: Any) -> Statement:
    words: Any = PostgresWords() if driver.dialect == "postgres" else SqliteWords()
    slots = sql.slots(asked.delivery, words, now_text(driver.dialect, None))
    text = templates("raceproof.deliveries", f"{driver.dialect}.sql")["delivery.look"]
    values = asked.values()
    if driver.dialect == "sqlite":
        values = dict(zip(values, bindable(tuple(values.values())), strict=True))
    return text.prepare(slots, driver.moves.style).bind(values)


def _script(asked: TurnRequest, cluster: bool) -> Statement:
    """The delivery's script without anything to do: it says what it has found."""
    delivery, text = asked.delivery, key_text(asked.parts)
    key = f"{delivery.table}:{{{text}}}" if cluster else f"{delivery.table}:{text}"
    look = script_of_delivery(delivery, "look", DeliveryState.READY, ())
    return Statement("delivery.look", look, [], (key,))
