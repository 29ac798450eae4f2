"""Every call of the library on the declarations whose texts are kept; each call has a name, and the texts that it sends.

A scene runs on a real store, so that what is kept is what was sent. A row is made for each call that needs one.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from raceproof import Store, column, sql
from raceproof.inbox import Arrival
from raceproof.ops.verify import verify
from tests.promises.golden.declarations import (
    Command,
    Job,
    Parcel,
    Podcast,
    bot,
    inbox,
    logins,
    picture,
    receipt,
)

Call = Callable[[], Any]
Scene = Iterator[tuple[str, Call]]
Put = Callable[..., None]
"""Make a row: `put(table, **columns)`."""

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def commands(db: Any, put: Put) -> Scene:
    """Moves with a revision and a history that keeps losers."""
    for number, status in enumerate(("QUEUED", "SENT", "SEND_FAILED", "DONE", "QUEUED", "QUEUED", "QUEUED")):
        put("commands", cmd_id=f"c{number}", status=status, rev=0)
    yield "move, won", lambda: db.move(Command.send, "c0", by="ann", reason="because")
    yield "move, won from its last source", lambda: db.move(Command.send, "c2")
    yield "move, already", lambda: db.move(Command.send, "c1")
    yield "move, refused", lambda: db.move(Command.ack, "c3")
    yield "move, missing", lambda: db.move(Command.ack, "none")
    yield (
        "move with columns, a guard and returning",
        lambda: db.move(
            Command.finish,
            "c0",
            set={"duration_ms": 7},
            where=column("error").is_null(),
            returning=["cmd_id", "error"],
        ),
    )
    yield "move with a revision", lambda: db.move(Command.fail, "c1", set={"error": "x"}, revision=7)
    yield "move at a given time", lambda: db.move(Command.ack, "c4", now=NOON)
    first = db.move(Command.ack, "c5")
    assert first.won
    yield "move, the same call again", lambda: db.move(Command.ack, "c5", call="0123456789")
    yield "move_many by keys", lambda: db.move_many(Command.send, ["c0", "c6", "none"], by="ann")
    yield (
        "move_many with columns of each",
        lambda: db.move_many(Command.fail, {"c4": {"error": "x"}, "c5": {"error": "y"}}, returning=["rev"]),
    )
    yield (
        "move_many of what matches",
        lambda: db.move_many(Command.fail_sending, where=column("error").is_null(), set={"error": "z"}, limit=10),
    )
    yield "read", lambda: db.read(Command, "c0")
    yield "history", lambda: db.history(Command, "c0")
    if db.dialect != "redis":
        yield (
            "move with a fragment",
            lambda: db.move(Command.fail, "c6", set={"error": "x"}, where=sql("t.rev < {most}", most=9)),
        )
        yield "verify", lambda: verify(db, Command)


def jobs(db: Any, put: Put) -> Scene:
    """Claims in columns, with attempts, backoff and a way out."""
    for number in range(8):
        put("jobs", job_id=f"j{number}", status="QUEUED", made_at=number, attempts=0)
    db.offer(Job.work, [f"j{number}" for number in range(8)])
    yield "offer", lambda: db.offer(Job.work, ["j0"])
    held: list[Any] = []
    yield "claim", lambda: held.extend(db.claim(Job.work, 5, by="ann", now=NOON))
    yield (
        "claim by the store's clock, returning",
        lambda: db.claim(Job.work, 1, by="ann", returning=["made_at"]),
    )
    yield (
        "claim with a guard and another lease",
        lambda: db.claim(Job.work, 1, by="ann", where=column("result").is_null(), lease=5),
    )
    yield "claim_one, won", lambda: db.claim_one(Job.work, "j7", by="ann", now=NOON)
    yield "claim_one, taken", lambda: db.claim_one(Job.work, "j7", by="bob", now=NOON)
    yield "claim_one, missing", lambda: db.claim_one(Job.work, "none", by="bob")
    yield "renew", lambda: db.renew(held)
    yield "renew at a given time", lambda: db.renew(held, now=NOON)
    yield "release", lambda: db.release(held[0], reason="not today")
    yield "release, lost", lambda: db.release(held[0], now=NOON)
    yield "fail", lambda: db.fail(held[1], reason="broken")
    yield "fail at a given time", lambda: db.fail(held[2], delay=9, now=NOON)
    yield "finish", lambda: db.move(Job.finish, held[3], set={"result": "r"})
    yield "finish, again", lambda: db.move(Job.finish, held[3], set={"result": "r"})
    more = db.claim(Job.work, 1, by="eve", now=after(100)) + db.claim(Job.work, 1, by="eve", now=after(101))
    yield "finish many of several claims", lambda: db.move_many(Job.finish, more)
    same = db.claim(Job.work, 2, by="eve", now=after(200))
    yield "finish many of one claim", lambda: db.move_many(Job.finish, same)
    rest = db.claim(Job.work, 2, by="eve", now=after(300))
    yield "finish many with columns", lambda: db.move_many(Job.finish, {one: {"result": "r"} for one in rest})
    for permit in range(3):
        db.claim(Job.work, 9, by="eve", now=after(1000 * (permit + 1)))
    yield "claim, with rows out of attempts", lambda: db.claim(Job.work, 9, by="eve", now=after(9000))
    put("jobs", job_id="k", status="RUNNING", made_at=9, attempts=0)
    yield "move of a row by key", lambda: db.move(Job.finish, "k")
    put("jobs", job_id="l", status="RUNNING", made_at=9, attempts=0)
    yield "move of a row by key that ends its claim", lambda: db.move(Job.give_up, "l", returning=["result"])
    yield "move_many of rows by key", lambda: db.move_many(Job.give_up, ["k", "l"])
    yield "claims", lambda: db.claims(Job.work)
    if db.dialect != "redis":
        yield "add_waiting", lambda: db.add_waiting(Job.work, ["m"])


def podcasts(db: Any, put: Put) -> Scene:
    """The forms of a claim: a timestamp, a text marker, and rows that stay at their status."""
    for number in range(9):
        put("podcasts", id=number, status="NEW")
    for claim in (Podcast.send, Podcast.describe, Podcast.vet):
        db.offer(claim, range(9))
        yield from _of_claim(db, claim)
    for number in (100, 101):
        put("podcasts", id=number, status="BUSY")
    yield "ready by key", lambda: db.move(Podcast.ready, 100, set={"summary": "s"})
    yield "ready many by key", lambda: db.move_many(Podcast.ready, [101])
    yield "claims of a marker", lambda: db.claims(Podcast.describe)


def _of_claim(db: Any, claim: Any) -> Scene:
    held: list[Any] = []
    name = claim.name
    yield f"claim {name}", lambda: held.extend(db.claim(claim, 3, by="ann", now=NOON))
    yield f"claim {name} by the store's clock", lambda: db.claim(claim, 1, by="ann")
    yield f"claim_one {name}", lambda: db.claim_one(claim, 0, by="bob", now=NOON)
    yield f"renew {name}", lambda: db.renew(held[:1], now=after(1))
    yield f"fail {name}", lambda: db.fail(held[1], now=after(1))
    yield f"release {name}", lambda: db.release(held[2])
    yield f"ready, held by {name}", lambda: db.move(Podcast.ready, held[0], set={"summary": "s"})


def parcels(db: Any, put: Put) -> Scene:
    """Everything at once."""
    db = db.for_tenant("north")
    for number in range(6):
        put(
            "shop.parcels",
            shop="north",
            depot="d",
            number=number,
            stage="NEW",
            weight=number,
            due=number,
            lane=f"l{number % 3}",
            tries=0,
            rev=0,
        )
    db.offer(Parcel.pack, [("d", number) for number in range(6)])
    held: list[Any] = []
    yield "claim", lambda: held.extend(db.claim(Parcel.pack, 3, by="ann", now=NOON, returning=["weight"]))
    yield "claim by the store's clock", lambda: db.claim(Parcel.pack, 3, by="ann")
    yield "claim_one", lambda: db.claim_one(Parcel.pack, ("d", 3), by="bob", now=NOON)
    yield "renew", lambda: db.renew(held, now=after(1))
    yield "release", lambda: db.release(held[0], reason="tired", now=after(1))
    yield "fail", lambda: db.fail(held[1], reason="broken", now=after(1))
    yield (
        "ready",
        lambda: db.move(Parcel.ready, held[2], set={"weight": 3, "note": "n"}, returning=["note"], by="ann"),
    )
    again = db.claim(Parcel.pack, 3, by="eve", now=after(500))
    yield "ready many", lambda: db.move_many(Parcel.ready, {one: {"weight": 1, "note": "n"} for one in again})
    yield "start by key", lambda: db.move(Parcel.start, ("d", 5), by="ann")
    yield "give up by key", lambda: db.move(Parcel.give_up, ("d", 5), revision=3)
    yield "give up many by key", lambda: db.move_many(Parcel.give_up, [("d", 4), ("d", 5)])
    yield "give up what matches", lambda: db.move_many(Parcel.give_up, where=column("weight") > 99)
    yield (
        "dead-lettered",
        lambda: [db.claim(Parcel.pack, 9, by="eve", now=after(1000 * permit)) for permit in range(1, 7)],
    )
    yield "claims", lambda: db.claims(Parcel.pack)
    yield "read", lambda: db.read(Parcel, ("d", 1))
    yield "history", lambda: db.history(Parcel, ("d", 1))


def pictures(db: Any, put: Put) -> Scene:
    """Deliveries: two timestamps, and every column that can tell something."""
    for delivery in (picture, receipt):
        for number in range(6):
            put("jobs", job_id=f"{delivery.name}{number}", status="DONE", made_at=number, attempts=0)
        yield from _of_delivery(db, delivery)
    yield (
        "reserve the permit of a receipt",
        lambda: db.begin_delivery(receipt, "receipt4", by="ann", reserve=True, now=NOON),
    )


def _of_delivery(db: Any, delivery: Any) -> Scene:
    permits: list[Any] = []
    name = delivery.name

    def take() -> None:
        permits.extend(db.begin_delivery(delivery, f"{name}{number}", by="ann", now=NOON) for number in range(4))

    yield f"begin a {name}", take
    yield (
        f"begin a {name} by the store's clock, returning",
        lambda: db.begin_delivery(delivery, f"{name}5", by="ann", returning=["made_at"]),
    )
    yield f"begin a {name}, refused", lambda: db.begin_delivery(delivery, f"{name}0", by="bob", now=NOON)
    yield f"begin a {name}, missing", lambda: db.begin_delivery(delivery, "none", by="bob")
    yield f"sending a {name}", lambda: db.sending(permits[0], now=after(1))
    yield f"delivered a {name}", lambda: db.delivered(permits[0], now=after(2))
    yield f"delivered a {name} by the store's clock", lambda: db.delivered(permits[1])
    yield f"not sent a {name}", lambda: db.not_sent(permits[2], "broken")
    yield f"uncertain about a {name}", lambda: db.uncertain(permits[3], "timeout")
    yield (
        f"a {name} arrived",
        lambda: db.resolve(delivery, f"{name}3", arrived=True, by="eve", now=after(999)),
    )
    yield f"a {name} did not arrive", lambda: db.resolve(delivery, f"{name}5", arrived=False)
    if db.dialect != "redis":
        yield f"deliveries of a {name}", lambda: db.deliveries(delivery)
        yield f"uncertain deliveries of a {name}", lambda: db.deliveries(delivery, uncertain=True)


def attempts(db: Any, put: Put) -> Scene:
    """One active attempt for an owner."""
    yield "start", lambda: db.start_attempt(logins, "ann", "l1", columns={"device": "phone"}, now=NOON)
    yield "start, superseding", lambda: db.start_attempt(logins, "ann", "l2", by="ann", now=after(1))
    yield "start by the store's clock", lambda: db.start_attempt(logins, "bob", "l3")
    yield "start, keeping", lambda: db.start_attempt(logins, "ann", "l4", when_open="keep", now=after(2))
    yield "start, rejecting", lambda: db.start_attempt(logins, "ann", "l4", when_open="reject", now=after(2))
    yield "current attempt", lambda: db.current_attempt(logins, "ann")
    yield "current attempt at a given time", lambda: db.current_attempt(logins, "ann", now=after(2))


def leases(db: Any, put: Put) -> Scene:
    """One holder at a time."""
    held: list[Any] = []
    yield "acquire a lease", lambda: held.append(db.acquire_lease(bot, "ann", now=NOON))
    yield "acquire a lease by the store's clock", lambda: held.append(db.acquire_lease(bot, "ann"))
    yield "acquire a lease, refused", lambda: db.acquire_lease(bot, "bob")
    yield "renew a lease", lambda: db.renew_lease(held[-1])
    yield "renew a lease at a given time", lambda: db.renew_lease(held[0], now=after(1))
    yield "lease holder", lambda: db.lease_holder(bot)
    guard = db.lease_guard(held[-1])
    put("jobs", job_id="led", status="RUNNING", made_at=1, attempts=0)
    yield "a move guarded by the epoch", lambda: db.move(Job.finish, "led", where=guard)
    yield "a claim guarded by the epoch", lambda: db.claim(Job.work, 1, where=guard)
    yield "release a lease", lambda: db.release_lease(held[-1])
    yield "release a lease at a given time", lambda: db.release_lease(held[0], now=after(1))


def events(db: Any, put: Put) -> Scene:
    """The inbox."""
    one = Arrival("shop", "e1", b"{}", {"a": "b"}, "ann")
    yield "receive", lambda: db.receive(inbox, one)
    yield "receive again, at a given time", lambda: db.receive(inbox, one, now=NOON)
    yield "receive many", lambda: db.receive_many(inbox, [one, Arrival("shop", "e2", b"{}", {}, None)])
    held: list[Any] = []
    yield "claim", lambda: held.extend(db.claim(inbox.work, 5, by="ann", returning=["body", "headers"]))
    yield "fail", lambda: db.fail(held[0], reason="broken")
    yield "finish", lambda: db.move_many(inbox.finish, held[1:])
    yield "forget", lambda: db.forget_events(inbox, 10)
    yield "counts", lambda: db.inbox_counts(inbox)
    if db.dialect != "redis":
        yield "list", lambda: db.inbox_events(inbox, "dead", 10)


SCENES: dict[str, Callable[[Store, Put], Scene]] = {
    "attempts": attempts,
    "commands": commands,
    "events": events,
    "jobs": jobs,
    "leases": leases,
    "parcels": parcels,
    "pictures": pictures,
    "podcasts": podcasts,
}
