"""The declarations whose finished texts are kept: those of the documentation, and one that uses everything at once."""

import sys
from enum import StrEnum
from pathlib import Path

from raceproof import (
    Backoff,
    Columns,
    History,
    Inbox,
    Lease,
    Lifecycle,
    Marker,
    Timestamp,
    claim,
    column,
    move,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples"))

from commands import Command
from jobs import Job
from logins import Login, logins
from pictures import picture, receipt

__all__ = ["Command", "Job", "Login", "Parcel", "Podcast", "bot", "inbox", "logins", "picture", "receipt"]


class Stage(StrEnum):
    NEW = "NEW"
    BUSY = "BUSY"
    READY = "READY"
    GONE = "GONE"


class Podcast(Lifecycle[Stage], table="podcasts", key="id"):
    """The three forms of a claim, and one of rows that stay where they are."""

    start = move(Stage.NEW, to=Stage.BUSY)
    back = move(Stage.BUSY, to=Stage.NEW)
    ready = move(Stage.BUSY, Stage.NEW, to=Stage.READY, sets="summary")
    give_up = move(Stage.NEW, Stage.BUSY, to=Stage.GONE)

    send = claim(
        start,
        lease=300,
        form=Timestamp("sending_at"),
        attempts="tries",
        cap=5,
        back=back,
        exhausted=give_up,
    )
    describe = claim(start, lease=3600, form=Marker("ai_error", "AI_DESC"), back=back)
    vet = claim(at=[Stage.NEW], lease=60, form=Columns("vetted_by", "vetted_until", "vet_fence"))


class Parcel(
    Lifecycle[Stage],
    table="shop.parcels",
    key=("depot", "number"),
    column="stage",
    revision="rev",
    tenant="shop",
    history=History("shop.parcel_history", losers=True),
):
    """Everything at once: a schema, a tenant, a key of two columns, a line, guards, a revision, history with losers."""

    start = move(Stage.NEW, to=Stage.BUSY, stamp="started_at", where=column("weight") < 30)
    back = move(Stage.BUSY, to=Stage.NEW, stamp="returned_at")
    ready = move(Stage.BUSY, Stage.NEW, to=Stage.READY, sets=("weight", "note"), stamp="ready_at")
    give_up = move(Stage.NEW, Stage.BUSY, to=Stage.GONE, stamp="gone_at")

    pack = claim(
        start,
        lease=45,
        order_by=("due", "weight"),
        serial="lane",
        where=(column("weight").is_not_null(), column("lane") != "closed"),
        attempts="tries",
        cap=4,
        after="rests_until",
        backoff=Backoff(2, 60),
        back=back,
        exhausted=give_up,
    )


bot = Lease("bot", 30)
inbox = Inbox()
