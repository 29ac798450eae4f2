"""A callback and a poller see the same picture: one of them sends it."""

from pictures import database, picture
from raceproof import Store
from raceproof.deliveries import NotSent

sent: list[str] = []


# docs: call
def deliver(db: Store, job_id: str, by: str, broken: bool = False) -> None:
    with db.deliver_once(picture, job_id, by=by) as permit:
        if not permit.won:
            print(f"{by}: {permit}")
            return
        if broken:
            raise NotSent("the connection was refused")  # nothing left this process
        print(f"{by}: sends the picture")
        sent.append(permit.idempotency_key)  # for receivers that deduplicate


with database("j-1") as db:
    try:
        deliver(db, "j-1", "callback", broken=True)
    except NotSent as error:
        print(f"callback: {error}")
    deliver(db, "j-1", "poller")
    deliver(db, "j-1", "callback")
    print("sent:", len(sent))
