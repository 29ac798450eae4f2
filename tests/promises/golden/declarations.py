"""The declarations whose finished texts are kept: those of the documentation, and one that uses everything at once."""

import sys
from enum import StrEnum
from pathlib import Path

from raceproof import Backoff, Inbox, Lease, Lifecycle, claimable, column, move
from raceproof.claims import ClaimColumns, TextMarker, TimestampClaim
from raceproof.declare import History

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples"))

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

    send = claimable(
        start,
        lease=300,
        form=TimestampClaim("sending_at"),
        attempts="tries",
        max_attempts=5,
        back=back,
        dead_letter=give_up,
    )
    describe = claimable(start, lease=3600, form=TextMarker("ai_error", "AI_DESC"), back=back)
    vet = claimable(at=[Stage.NEW], lease=60, form=ClaimColumns("vetted_by", "vetted_until", "vet_fence"))


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

    pack = claimable(
        start,
        lease=45,
        order_by=("due", "weight"),
        ordering_key="lane",
        where=(column("weight").is_not_null(), column("lane") != "closed"),
        attempts="tries",
        max_attempts=4,
        not_before="rests_until",
        backoff=Backoff(2, 60),
        back=back,
        dead_letter=give_up,
    )


bot = Lease("bot", 30)
inbox = Inbox()
