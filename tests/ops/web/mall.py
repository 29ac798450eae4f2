"""A mall of several shops, for the pages to keep apart: one of everything with a tenant column, and one without."""

from enum import StrEnum

from raceproof import Attempts, Delivery, Inbox, Lease, Lifecycle, claimable, move
from raceproof.declare import History


class Step(StrEnum):
    NEW = "NEW"
    PACKING = "PACKING"
    SENT = "SENT"
    FAILED = "FAILED"


class Parcel(
    Lifecycle[Step],
    table="mall_parcels",
    key="id",
    tenant="shop",
    revision="rev",
    history=History("mall_history", losers=True),
):
    """A parcel of one shop."""

    start = move(Step.NEW, to=Step.PACKING)
    put_back = move(Step.PACKING, to=Step.NEW)
    send = move(Step.NEW, Step.PACKING, to=Step.SENT, stamp="sent_at", sets="note")
    fail = move(Step.NEW, Step.PACKING, to=Step.FAILED)
    packing = claimable(start, lease=60, order_by="id", attempts="tries", max_attempts=2, back=put_back)


class Stage(StrEnum):
    OPEN = "open"
    DONE = "done"
    REPLACED = "replaced"


class Visit(
    Lifecycle[Stage],
    table="mall_visits",
    key="id",
    tenant="shop",
    history=History("mall_history", losers=True),
):
    """A guest of one shop: at most one open visit each."""

    finish = move(Stage.OPEN, to=Stage.DONE)
    replace = move(Stage.OPEN, to=Stage.REPLACED, sets="replaced_by")


class Session(StrEnum):
    OPEN = "open"
    EXPIRED = "expired"
    REPLACED = "replaced"


class Login(Lifecycle[Session], table="mall_logins", key="id", tenant="shop"):
    """A login of a shop: the tenant is the owner."""

    expire = move(Session.OPEN, to=Session.EXPIRED)
    replace = move(Session.OPEN, to=Session.REPLACED, sets="replaced_by")


class Way(StrEnum):
    OPEN = "open"
    DONE = "done"


class Ticket(Lifecycle[Way], table="mall_tickets", key="id", history=History("mall_history", losers=True)):
    """A ticket of anybody: no column says whose it is."""

    finish = move(Way.OPEN, to=Way.DONE)


visits = Attempts(Visit, owner="guest", supersede=Visit.replace, link="replaced_by", started="began_at", ttl=900)
logins = Attempts(
    Login,
    owner="shop",
    supersede=Login.replace,
    expire=Login.expire,
    link="replaced_by",
    started="began_at",
    ttl=900,
)
letters = Delivery(
    "letter",
    "mall_parcels",
    key="id",
    tenant="shop",
    delivering="letter_at",
    delivered="letter_sent_at",
    state="letter_state",
    holder="letter_by",
    error="letter_error",
    policy="hold",
)
posters = Delivery(
    "poster",
    "mall_tickets",
    key="id",
    delivering="poster_at",
    delivered="poster_sent_at",
    state="poster_state",
    holder="poster_by",
    error="poster_error",
    policy="hold",
)
guard = Lease("mall-guard", 30, "mall_leases")
mail = Inbox("mall_inbox", attempts=1)
