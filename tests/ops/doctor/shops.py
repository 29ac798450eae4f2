"""Things that belong to shops: the same names at several, keys of several columns, work that may not be begun yet."""

from raceproof import Attempts, Lifecycle, claimable, column, move
from raceproof.declare import Expiry
from tests.ops.cli.shops import Crate, Parcel, events, notes
from tests.ops.doctor.declared import Entry, Stage

__all__ = ["Crate", "Errand", "Parcel", "Visit", "events", "notes", "visits"]


class Visit(Lifecycle[Entry], table="shop_visits", key="id", tenant="shop", expires=Expiry(900, 3600)):
    finish = move(Entry.PENDING, to=Entry.DONE)
    expire = move(Entry.PENDING, to=Entry.EXPIRED)
    supersede = move(Entry.PENDING, to=Entry.SUPERSEDED, sets="superseded_by")


visits = Attempts(Visit, owner="guest", supersede=Visit.supersede, link="superseded_by", started="began_at", ttl=900)


class Errand(Lifecycle[Stage], table="shop_errands", key="id"):
    """In a line for each street, after a rest, and only with leave."""

    start = move(Stage.QUEUED, to=Stage.RUNNING)
    requeue = move(Stage.RUNNING, to=Stage.QUEUED)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    give_up = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DEAD)
    work = claimable(
        start,
        lease=60,
        order_by="made_at",
        ordering_key="street",
        where=column("leave") == "yes",
        attempts="attempts",
        max_attempts=3,
        not_before="rests_until",
        back=requeue,
        dead_letter=give_up,
    )
