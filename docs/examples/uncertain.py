"""The outcome of a send is unknown: send again, hold for an operator, or ask the receiver first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pictures import database, picture, receipt
from raceproof import SendPermit

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=6)

with database("j-1", "j-2", "j-3") as db:
    # docs: call
    # resend, the default: after the stale time the next sender gets a permit, marked in_doubt
    db.begin_delivery(picture, "j-1", by="sender-1", now=NOON)  # and dies
    print(db.begin_delivery(picture, "j-1", by="sender-2", now=NOON))
    print(db.begin_delivery(picture, "j-1", by="sender-2", now=LATER))

    # hold: no process sends until an operator has resolved it
    try:
        with db.deliver_once(receipt, "j-2", by="sender-1"):
            raise TimeoutError("no answer within 10 s")
    except TimeoutError:
        pass
    print(db.begin_delivery(receipt, "j-2", by="sender-2"))
    print(db.resolve(receipt, "j-2", arrived=True, by="ann"))

    # probe: ask the receiver first
    asking = replace(picture, policy="probe")

    def arrived(permit: SendPermit) -> bool | None:
        return True  # what the receiver says about permit.idempotency_key; None if it does not know

    db.begin_delivery(asking, "j-3", by="sender-1", now=NOON)  # and dies
    with db.deliver_once(asking, "j-3", by="sender-2", now=LATER, probe=arrived) as permit:
        print(permit)
