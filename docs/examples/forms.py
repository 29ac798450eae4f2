"""Three ways to store a claim in a row."""

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum

from raceproof import Lifecycle, bind, claimable, move
from raceproof.claims import ClaimColumns, TextMarker, TimestampClaim

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Status(StrEnum):
    NEW = "NEW"
    READY = "READY"


# docs: call
class Podcast(Lifecycle[Status], table="podcasts", key="id"):
    ready = move(Status.NEW, to=Status.READY)

    vet = claimable(at=[Status.NEW], lease=60, form=ClaimColumns("vetted_by", "vetted_until", "vet_fence"))
    send = claimable(at=[Status.NEW], lease=300, form=TimestampClaim("sending_at"))
    describe = claimable(at=[Status.NEW], lease=3600, form=TextMarker("ai_error", "AI_DESC"))


with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
    connection.execute("""
        CREATE TABLE podcasts (id INTEGER PRIMARY KEY, status TEXT, vetted_by TEXT, vetted_until TEXT,
                               vet_fence INTEGER, sending_at TEXT, ai_error TEXT)
    """)
    connection.execute("INSERT INTO podcasts (id, status, ai_error) VALUES (1, 'NEW', 'Timeout after 45 s')")
    db = bind(connection)
    for how in (Podcast.vet, Podcast.send, Podcast.describe):
        [claimed] = db.claim(how, by="worker-1", now=NOON)
        row = db.read(Podcast, 1) or {}
        for column in dict.fromkeys((*how.form.cleared, how.form.fence_column)):
            shown = re.sub("[0-9a-f]{32}", "<uuid>", str(row[column]))
            print(f"{how.name:9} {column:13}", re.sub(r"([.]\d{3})\d{6}$", r"\1<random>", shown))
