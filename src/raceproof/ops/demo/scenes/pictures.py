"""Callback against poller: several processes learn of the same finished picture at once, and each wants to send it.

All are told in the same moment, and then race freely. Some sends fail cleanly, so that a picture can also be forgotten.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from random import Random

from raceproof import Delivery, bind
from raceproof.deliveries import NotSent
from raceproof.ops.demo.database import connect_file
from raceproof.ops.demo.scenes.scene import Code, Direction, Figure, Post, Scene
from raceproof.ops.demo.sides import RACEPROOF, UNGUARDED

SENDING = (0.003, 0.008)
"""From the request until the receiver has answered."""
FAILING = 0.15
"""How many sends of a callback are turned away by the receiver."""
LAST_POLLS = 3

picture = Delivery("picture", table="pictures", key="picture_id")


class Unguarded:
    """What people write: look whether it was delivered, send it, write that it was."""

    name = UNGUARDED

    def __init__(self, database: sqlite3.Connection, sender: str) -> None:
        self._database = database

    def unsent(self) -> list[str]:
        """What a poll finds."""
        return _keys(self._database, "SELECT picture_id FROM pictures_unguarded WHERE delivered_at IS NULL ORDER BY 1")

    def deliver(self, picture_id: str, send: Callable[[], None]) -> str | None:
        """Send it, if nobody has; otherwise says why not."""
        [delivered_at] = self._database.execute(
            "SELECT delivered_at FROM pictures_unguarded WHERE picture_id = ?", (picture_id,)
        ).fetchone()
        if delivered_at is not None:
            return "delivered"
        send()
        self._database.execute(
            "UPDATE pictures_unguarded SET delivered_at = datetime('now') WHERE picture_id = ?", (picture_id,)
        )
        return None


class Guarded:
    """The same with raceproof: one has the turn, and how its block ends is how the delivery ends."""

    name = RACEPROOF

    def __init__(self, database: sqlite3.Connection, sender: str) -> None:
        self._database = database
        self._db = bind(database)
        self._sender = sender

    def unsent(self) -> list[str]:
        """What a poll finds."""
        return _keys(self._database, "SELECT picture_id FROM pictures WHERE delivered_at IS NULL ORDER BY 1")

    def deliver(self, picture_id: str, send: Callable[[], None]) -> str | None:
        """Send it, if it is this process's turn; otherwise says why not."""
        with self._db.deliver_once(picture, picture_id, by=self._sender) as permit:
            if not permit.won:
                return f"no turn: {getattr(permit, 'state', permit.outcome)}"
            send()
        return None


def _keys(database: sqlite3.Connection, query: str) -> list[str]:
    return [picture_id for (picture_id,) in database.execute(query)]


def send_what_comes(post: Post, polls: bool) -> None:
    """What a process does: a callback brings one picture, a poll finds all that have not been delivered."""
    with closing(connect_file(post.database)) as connection:
        kind = Guarded if post.side == RACEPROOF else Unguarded
        side = kind(connection, post.actor)
        tried: set[str] = set()
        while (told := post.director.recv()) is not None:
            for picture_id in side.unsent() if polls else [told]:
                _deliver(post, side, connection, picture_id, may_fail=picture_id not in tried)
                tried.add(picture_id)
            post.director.send("done")


def _deliver(
    post: Post, side: Unguarded | Guarded, connection: sqlite3.Connection, picture_id: str, may_fail: bool
) -> None:
    def send() -> None:
        if may_fail and Random(f"{post.seed}/{picture_id}/busy").random() < FAILING:
            raise NotSent("the receiver is busy")
        time.sleep(Random(f"{post.seed}/{picture_id}").uniform(*SENDING) * post.delay)
        connection.execute(
            "INSERT INTO sent (side, picture_id, sender) VALUES (?, ?, ?)",
            (side.name, picture_id, post.actor),
        )

    try:
        why = side.deliver(picture_id, send)
    except NotSent:
        why = "not sent"
    if why:
        connection.execute(
            "INSERT INTO left_alone (side, picture_id, sender, why) VALUES (?, ?, ?, ?)",
            (side.name, picture_id, post.actor, why),
        )


def tell_everybody(direction: Direction) -> None:
    """A picture is finished: all learn of it in the same moment. The poller looks once more in the end."""
    for _ in range(direction.rounds):
        [picture_id] = direction.put_in(1)
        for line in direction.lines.values():
            line.tell(picture_id)
        for line in direction.lines.values():
            line.hear("done")
    poller = direction.lines["poller"]
    for _ in range(LAST_POLLS):
        poller.tell("")
        poller.hear("done")


CODE = Code(
    """\
done = fetch("SELECT delivered_at FROM pictures"
             " WHERE picture_id = ?", picture_id)
if done is None:
    send(picture_id)  # meanwhile the poller sends it
    execute("UPDATE pictures SET delivered_at = …"
            " WHERE picture_id = ?", picture_id)
""",
    (3, 4),
    """\
picture = Delivery("picture", table="pictures",
                   key="picture_id")

with db.deliver_once(picture, picture_id) as turn:
    if turn.won:  # one wins: callback or poller
        send(picture_id)
# UPDATE … SET delivering_at = now WHERE picture_id = ?
#   AND delivered_at IS NULL AND nobody is at it
""",
    (3, 4),
)

CALLBACK_POLLER = Scene(
    name="callback-poller",
    title="callback against poller",
    story="A picture is finished. Its callback arrives, and comes again, and a poller finds the picture too, all at once:",
    cast={
        "callback-1": partial(send_what_comes, polls=False),
        "callback-2": partial(send_what_comes, polls=False),
        "poller": partial(send_what_comes, polls=True),
    },
    told=(
        (
            "callbacks ×2",
            f"send the picture ({SENDING[0] * 1000:g}–{SENDING[1] * 1000:g} ms); some sends fail",
        ),
        ("poller", "sends what has not been delivered"),
        (UNGUARDED, "reads delivered_at, sends, writes delivered_at"),
        (RACEPROOF, "sends if it has the turn"),
    ),
    direct=tell_everybody,
    rounds=lambda seconds: max(8, round(seconds * 12)),
    items=1,
    noun="pictures",
    schema="pictures.sql",
    ddl=(),
    put_in={
        UNGUARDED: "INSERT INTO pictures_unguarded (picture_id) VALUES (?)",
        RACEPROOF: "INSERT INTO pictures (picture_id) VALUES (?)",
    },
    figures=(
        Figure("sends", "sends", "", "SELECT count(*) FROM sent WHERE side = ?"),
        Figure(
            "left_to_another",
            "left to another",
            "",
            "SELECT count(*) FROM left_alone WHERE side = ? AND why <> 'not sent'",
        ),
        Figure(
            "failed_sends",
            "sends that failed",
            "",
            "SELECT count(*) FROM left_alone WHERE side = ? AND why = 'not sent'",
        ),
        Figure(
            "sent_twice",
            "pictures sent twice",
            "or more often",
            "SELECT count(DISTINCT key) FROM wrong WHERE side = ?",
            wrong=True,
        ),
        Figure(
            "never_sent",
            "pictures never sent",
            "",
            """
            SELECT count(*) FROM items AS i WHERE i.side = ?
            AND NOT EXISTS (SELECT 1 FROM sent WHERE sent.side = i.side AND sent.picture_id = i.key)
            """,
            wrong=True,
            live=False,
        ),
    ),
    worst_said="were sent twice or more",
    code=CODE,
)
