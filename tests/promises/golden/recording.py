"""What the scenes send to a store, as files that people read: `python -m tests.promises.golden.recording` writes them anew.

A file has, for one store and one scene, every text that was sent, once, under the first call that sent it.
"""

import itertools
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import redis

from raceproof import Lease, Store, bind, ddl
from raceproof.testing import PostgresServer, postgres, valkey
from tests.ddl import script
from tests.promises.golden.declarations import Command, Job, Login, Parcel, Podcast, bot, inbox, logins
from tests.promises.golden.scenes import SCENES, Put

FOLDER = Path(__file__).parent / "texts"

TABLES = """
CREATE TABLE commands (cmd_id text PRIMARY KEY, status text NOT NULL, rev bigint NOT NULL, sent_at {time},
    ack_at {time}, duration_ms bigint, error text);
CREATE TABLE jobs (job_id text PRIMARY KEY, status text NOT NULL, made_at bigint, result text,
    claimed_by text, claimed_until {time}, fence bigint, attempts bigint, not_before {time},
    delivering_at {time}, delivered_at {time}, receipt_sending_at {time}, receipt_sent_at {time}, receipt_state text,
    receipt_by text, receipt_error text, receipt_tries bigint);
CREATE TABLE podcasts (id bigint PRIMARY KEY, status text NOT NULL, summary text, sending_at {time}, tries bigint,
    ai_error text, vetted_by text, vetted_until {time}, vet_fence bigint);
CREATE TABLE shop.parcels (shop text, depot text, number bigint, stage text NOT NULL, rev bigint NOT NULL,
    weight bigint, note text, due bigint, lane text, tries bigint, rests_until {time}, started_at {time},
    returned_at {time}, ready_at {time}, gone_at {time}, claimed_by text, claimed_until {time}, fence bigint,
    PRIMARY KEY (shop, depot, number));
CREATE TABLE logins (login_id text PRIMARY KEY, user_id text NOT NULL, status text NOT NULL, started_at {time} NOT NULL,
    superseded_by text, superseded_at {time}, device text)
"""


class Recorder:
    """Listens to what a store sends."""

    def __init__(self, db: Store) -> None:
        driver: Any = db.driver
        self.heard: list[Any] = []
        execute = driver.execute

        def recorded(statement: Any) -> Any:
            self.heard.append(statement)
            return execute(statement)

        driver.execute = recorded


def texts(name: str, db: Store, put: Put, seen: set[str]) -> str:
    """The file of one scene on one store, without the texts that were seen already."""
    recorder = Recorder(db)
    parts: list[str] = []
    for call, make in SCENES[name](db, put):
        recorder.heard.clear()
        make()
        sent = [one for one in recorder.heard if one.text not in ("BEGIN", "COMMIT", "ROLLBACK")]
        new = [one for one in sent if one.text not in seen and not seen.add(one.text)]  # type: ignore[func-returns-value]
        names = ", ".join(_runs(one.name for one in recorder.heard)) or "nothing"
        parts.append(f"-- {call}: {names}")
        parts += [f"-- {one.name}\n{one.text.strip()}\n" for one in new]
    return _plain("\n".join(parts).strip() + "\n")


def _runs(names: Iterator[str]) -> Iterator[str]:
    """Names in their order, and how often one is repeated."""
    for name, group in itertools.groupby(names):
        number = len(list(group))
        yield name if number == 1 else f"{name} ×{number}"


def _plain(text: str) -> str:
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def schema(dialect: Any) -> str:
    """All DDL of one dialect."""
    parts = [
        *(statement for one in (Command, Job, Login, Parcel, Podcast) for statement in ddl(one.spec, dialect=dialect)),
        *(script(one.spec, dialect=dialect, only="guards") for one in (Command, Parcel)),
        *(script(one, dialect=dialect, only="indexes") for one in (Job.work, Parcel.pack, Podcast.vet)),
        script(logins, dialect=dialect, only="indexes"),
        script(Lease("any", table=bot.table), dialect=dialect),
        script(inbox, dialect=dialect),
    ]
    return _plain("\n\n".join(part.strip() for part in parts if part.strip()) + "\n")


@contextmanager
def on_sqlite() -> Iterator[tuple[Callable[[], Store], Put]]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        own = stack.enter_context(closing(sqlite3.connect(Path(folder, "golden.db"), isolation_level=None)))
        own.execute("ATTACH ? AS shop", (str(Path(folder, "shop.db")),))
        own.executescript(TABLES.format(time="text"))
        _create(lambda text: own.executescript(text), "sqlite")

        def put(table: str, **columns: Any) -> None:
            marks = ", ".join("?" for _ in columns)
            own.execute(
                f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})",
                tuple(columns.values()),
            )

        yield lambda: bind(own), put


@contextmanager
def on_postgres(server: PostgresServer) -> Iterator[tuple[Callable[[], Store], Put]]:
    with psycopg.connect(server.database(), autocommit=True) as own:
        own.execute("CREATE SCHEMA shop")
        own.execute(TABLES.format(time="timestamptz"))
        _create(lambda text: own.execute(text), "postgres")

        def put(table: str, **columns: Any) -> None:
            marks = ", ".join("%s" for _ in columns)
            own.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING",
                tuple(columns.values()),
            )

        yield lambda: bind(own), put


@contextmanager
def on_valkey(url: str) -> Iterator[tuple[Callable[[], Store], Put]]:
    client: Any = redis.Redis.from_url(url)
    with closing(client) as own:
        own.flushdb()
        keys = {"commands": ["cmd_id"], "jobs": ["job_id"], "podcasts": ["id"]}
        keys["shop.parcels"] = ["shop", "depot", "number"]

        def put(table: str, **columns: Any) -> None:
            key = ":".join(str(columns[name]) for name in keys[table])
            own.hset(f"{table}:{key}", mapping=columns)

        yield lambda: bind(own), put


def _create(run: Callable[[str], object], dialect: Any) -> None:

    for one in (Command, Parcel):
        run(script(one.spec, dialect=dialect, only="tables"))
    run(script(logins, dialect=dialect, only="indexes"))
    run(script(Lease("any", table=bot.table), dialect=dialect))
    run(script(inbox, dialect=dialect))


def all_texts(newest: PostgresServer, older: PostgresServer, valkey_url: str) -> dict[str, str]:
    """Every file by its path below the folder."""
    found = {}
    newest_texts: dict[str, set[str]] = {}
    stores = {
        "sqlite": (on_sqlite, ".sql"),
        "postgres": (lambda: on_postgres(newest), ".sql"),
        "postgres-16": (lambda: on_postgres(older), ".sql"),
        "redis": (lambda: on_valkey(valkey_url), ".lua"),
    }
    for store, (opened, suffix) in stores.items():
        for name in SCENES:
            # of an older PostgreSQL only what it is sent instead
            seen = newest_texts.setdefault(name, set()) if store.startswith("postgres") else set()
            with opened() as (make, put):
                found[f"{store}/{name}{suffix}"] = texts(name, make(), put, seen)
    for dialect in ("postgres", "sqlite"):
        found[f"{dialect}/schema.sql"] = schema(dialect)
    return found


def main() -> None:
    with postgres() as newest, postgres(16) as older, valkey() as server:
        found = all_texts(newest, older, server.url)
    for path in FOLDER.rglob("*.*"):
        path.unlink()
    for name, text in found.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    lines = sum(text.count("\n") for text in found.values())
    sys.stdout.write(f"{len(found)} files, {lines} lines\n")


if __name__ == "__main__":
    main()
