"""The broker does not answer: the row records an unknown outcome, and no other worker publishes."""

import sqlite3

from raceproof import Delivery, bind

publishing = Delivery(
    "publishing", table="commands", key="cmd_id", state="publish_state", holder="publisher", policy="hold"
)
connection = sqlite3.connect(":memory:", isolation_level=None)
connection.execute(
    "CREATE TABLE commands (cmd_id TEXT PRIMARY KEY, delivering_at TEXT, delivered_at TEXT,"
    " publish_state TEXT, publisher TEXT)"
)
connection.execute("INSERT INTO commands (cmd_id) VALUES ('c-42')")
db = bind(connection)


def publish(name: str) -> None:
    with db.deliver_once(publishing, "c-42", by=name) as permit:
        if not permit.won:
            print(f"{name} does not publish: {permit}")
            return
        print(f"{name} publishes c-42")  # pass permit.idempotency_key along
        raise TimeoutError("the broker did not answer")


try:
    publish("worker 1")
except TimeoutError as error:
    print(f"worker 1: {error}")
publish("worker 2")
print(db.resolve(publishing, "c-42", arrived=False, by="ann"))  # ann asked the broker
connection.close()
