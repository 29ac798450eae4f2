"""A small shop, for the pages to show: one of everything that can be declared."""

from enum import StrEnum

from raceproof import Attempts, Delivery, Inbox, Lease, Lifecycle, claimable, column, move
from raceproof.declare import History


class Status(StrEnum):
    NEW = "NEW"
    PACKING = "PACKING"
    PACKED = "PACKED"
    SHIPPED = "SHIPPED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


class Order(
    Lifecycle[Status],
    table="shop_orders",
    key="id",
    revision="rev",
    history=History("shop_history", losers=True),
):
    """An order that is packed by workers, shipped by people, and whose receipt is sent once."""

    start = move(Status.NEW, to=Status.PACKING)
    put_back = move(Status.PACKING, to=Status.NEW)
    pack = move(Status.PACKING, to=Status.PACKED)
    ship = move(Status.PACKED, to=Status.SHIPPED, stamp="shipped_at", sets="carrier", where=column("paid") > 0)
    cancel = move(Status.NEW, Status.PACKING, to=Status.CANCELLED)
    give_up = move(Status.NEW, Status.PACKING, to=Status.FAILED)
    packing = claimable(
        start, lease=60, order_by="id", attempts="tries", max_attempts=3, back=put_back, dead_letter=give_up
    )


class Place(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Line(Lifecycle[Place], table="shop_lines", key=("order_id", "place"), tenant="shop"):
    """A line of an order: a key of two columns, in the rows of a tenant."""

    close = move(Place.OPEN, to=Place.CLOSED)


class Session(StrEnum):
    PENDING = "pending"
    DONE = "done"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


class Login(Lifecycle[Session], table="shop_logins", key="id", history=History("shop_history", losers=True)):
    """An attempt of a user to log in."""

    finish = move(Session.PENDING, to=Session.DONE)
    expire = move(Session.PENDING, to=Session.EXPIRED)
    supersede = move(Session.PENDING, to=Session.SUPERSEDED, sets="superseded_by")


logins = Attempts(Login, owner="owner", supersede=Login.supersede, link="superseded_by", started="began_at", ttl=900)
receipts = Delivery(
    "receipt",
    "shop_orders",
    key="id",
    delivering="receipt_at",
    delivered="receipt_sent_at",
    state="receipt_state",
    holder="receipt_by",
    error="receipt_error",
    attempts="receipt_tries",
    policy="hold",
)
bot = Lease("shop-bot", 30, "shop_leases")
events = Inbox("shop_inbox", attempts=2)
