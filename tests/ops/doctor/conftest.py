"""A healthy store of each kind, a way to make it ill, and a way to paste a repair."""

import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from raceproof import Lease, Store, connect
from raceproof.declare import spec_of
from raceproof.ops.doctor import Diagnosis, Problem, Subject, diagnose
from raceproof.schema import Dialect
from raceproof.testing import ValkeyServer
from tests.ddl import script
from tests.ops.cli.conftest import cli
from tests.ops.doctor.declared import Job, Login, Parcel, bot, letters, logins, pictures

__all__ = ["cli"]

APP = Job.__module__

_TABLES = """
CREATE TABLE ill_jobs (
    id text PRIMARY KEY, status text NOT NULL, rev bigint NOT NULL DEFAULT 0, made_at integer, attempts integer,
    done_at {time}, claimed_by text, claimed_until {time}, fence bigint
);
CREATE TABLE ill_parcels (
    shop text, number integer, status text NOT NULL, attempts integer, claimed_by text, claimed_until {time},
    fence bigint, PRIMARY KEY (shop, number)
);
CREATE TABLE ill_logins (
    id text PRIMARY KEY, status text NOT NULL, owner text NOT NULL, began_at {time}, superseded_by text
);
CREATE TABLE ill_pictures (id text PRIMARY KEY, state text, sender text, delivering_at {time}, delivered_at {time});
"""


def schema(dialect: Dialect) -> list[str]:
    """Everything that a healthy database has."""
    time = {"postgres": "timestamptz", "sqlite": "text"}[dialect]
    return [
        _TABLES.format(time=time),
        script(spec_of(Job), dialect=dialect, only="tables"),
        script(Lease("any", table=bot.table), dialect=dialect),
        script(letters, dialect=dialect),
        script(Job.work, dialect=dialect, only="indexes"),
        script(Parcel.work, dialect=dialect, only="indexes"),
        script(logins, dialect=dialect, only="indexes"),
        *(script(spec_of(one), dialect=dialect, only="guards") for one in (Job, Parcel, Login)),
    ]


@dataclass
class Ill:
    """A store: its URL, the library on it, a way around the library, and the command line."""

    url: str
    db: Store
    raw: Any
    cli: Callable[..., Any]

    @property
    def dialect(self) -> str:
        return self.db.dialect

    def put(self, table: str, **columns: Any) -> None:
        """A row, written by somebody else."""
        if self.dialect == "redis":
            keys = [columns[name] for name in ("shop", "number", "id") if name in columns]
            kept = {name: value for name, value in columns.items() if value is not None}
            self.raw.hset(f"{table}:{':'.join(map(str, keys))}", mapping=kept)
            return
        places = ", ".join(("%s" if self.dialect == "postgres" else "?",) * len(columns))
        self.run(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", *columns.values())

    def run(self, text: str, *values: Any) -> Any:
        return self.raw.execute(text.encode() if self.dialect == "postgres" else text, values or ())

    def diagnose(self, **options: Any) -> Diagnosis:
        """All that is declared, as the command line names it."""
        flags = f"--app {APP} --url {self.url}"
        named: dict[str, Any] = {"logins": logins, "pictures": pictures, "bot": bot, "letters": letters}
        subjects = [Subject(spec_of(one), one.__name__, flags) for one in (Job, Parcel, Login)]
        subjects += [Subject(thing, name, flags) for name, thing in named.items()]
        return diagnose(self.db, *subjects, **options)

    def problem(self, check: str, **options: Any) -> Problem:
        """The one problem that there is, which is of this check."""
        found = self.diagnose(**options).problems
        assert [one.check for one in found] == [check], found
        return found[0]

    def paste(self, problem: Problem, choice: str = "") -> None:
        """Do what the repair says, as it is printed; of two commands that are commented out, the one that is chosen."""
        repair = problem.repair
        assert repair is not None
        match repair.way:
            case "sql" if self.dialect == "postgres":
                self.raw.execute(repair.text.encode())
            case "sql":
                self.raw.executescript(repair.text)
            case "redis":
                for line in repair.text.splitlines():
                    self.raw.execute_command(*shlex.split(line))
            case "command":
                for line in repair.text.splitlines():
                    if choice and f" {choice} " in line:
                        line = line.removeprefix("# ")
                    words = shlex.split(line, comments=True)
                    if words:
                        assert words[0] == "raceproof"
                        result = self.cli(*words[1:])
                        assert result.exit_code == 0, result.output
            case _:
                raise AssertionError(f"advice cannot be pasted: {repair.text}")

    def is_cured(self, problem: Problem) -> None:
        """It is repaired by what was printed, and nothing else came of it."""
        self.paste(problem)
        assert self.diagnose().problems == ()


@pytest.fixture
def ill_sqlite(tmp_path: Path, cli: Any) -> Iterator[Ill]:
    path = tmp_path / "ill.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for text in schema("sqlite"):
            raw.executescript(text)
        with connect(f"sqlite:///{path}") as db:
            yield Ill(f"sqlite:///{path}", db, raw, cli)


@pytest.fixture
def ill_postgres(empty_postgres: str, cli: Any) -> Iterator[Ill]:
    with psycopg.connect(empty_postgres, autocommit=True) as raw, connect(empty_postgres) as db:
        for text in schema("postgres"):
            raw.execute(text.encode())
        yield Ill(empty_postgres, db, raw, cli)


@pytest.fixture
def ill_valkey(valkey_server: ValkeyServer, cli: Any) -> Iterator[Ill]:
    url = valkey_server.url.removesuffix("/0") + "/11"
    with redis.Redis.from_url(url, decode_responses=True) as raw, connect(url) as db:
        raw.flushdb()
        yield Ill(url, db, raw, cli)
        raw.flushdb()


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
def ill(request: pytest.FixtureRequest) -> Ill:
    """Each kind of store in turn, healthy as yet."""
    found: Ill = request.getfixturevalue(f"ill_{request.param}")
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def ill_sql(request: pytest.FixtureRequest) -> Ill:
    """The stores that have a schema."""
    found: Ill = request.getfixturevalue(f"ill_{request.param}")
    return found
