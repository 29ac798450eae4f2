"""What commands to paste are tested with: rows that belong to somebody, and keys of several columns."""

from enum import StrEnum

from raceproof import Delivery, Inbox, Lifecycle, claimable, move


class Stage(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DEAD = "DEAD"


class Parcel(Lifecycle[Stage], table="shop_parcels", key=("street", "house"), tenant="shop"):
    """Work of one shop, which is set aside in the end."""

    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    give_up = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DEAD)
    work = claimable(start, lease=60, attempts="attempts", max_attempts=3, dead_letter=give_up)


class Crate(Lifecycle[Stage], table="shop_crates", key=("street", "house"), tenant="shop"):
    """The same, with no way out."""

    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    bury = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DEAD)
    work = claimable(start, lease=60, attempts="attempts", max_attempts=3)


notes = Delivery("note", "shop_notes", key=("street", "house"), state="state", tenant="shop", policy="hold")
events = Inbox("shop_inbox", attempts=1)
