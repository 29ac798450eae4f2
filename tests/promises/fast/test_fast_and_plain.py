"""What exists only for speed decides like what it stands in for: the same calls on the same rows, once fast and once plain.

Every answer and every row is compared after random calls: moves of one row and of many, by key and by claim, with guards,
revisions and fences of the dead; searches, renewals, and claims that are given back.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raceproof import Lifecycle, Store, bind, column, ddl
from raceproof.claims import Claim
from raceproof.claims.postgres import PostgresClaims
from raceproof.claims.sqlite import SqliteClaims
from raceproof.declare import Spec
from raceproof.moves.postgres import PostgresMoves
from raceproof.moves.redis import RedisMoves
from raceproof.moves.sqlite import SqliteMoves
from raceproof.testing import PostgresServer, ValkeyServer

NOON = datetime(2096, 1, 31, 12, tzinfo=UTC)
"""Later than the clock of any store: what was offered by that clock is due."""
STATUSES = ("QUEUED", "RUNNING", "CHECKED", "DONE", "DEAD")
FORMS: dict[str, dict[str, Any]] = {
    "columns": {"kind_of_form": "columns"},
    "timestamp": {"kind_of_form": "timestamp", "column": "started_at"},
    "marker": {"kind_of_form": "marker", "column": "error", "kind": "JOB"},
}
PLAIN: dict[str, dict[str, Any]] = {
    "postgres": {"moves": PostgresMoves, "claims": PostgresClaims},
    "sqlite": {"moves": SqliteMoves, "claims": SqliteClaims},
    "redis": {"moves": RedisMoves},
}
"""What the fast programs of a store stand in for."""


def declared(form: str, told: str, line: bool) -> Spec[str]:
    """Jobs with a claim; `told` is what is written of a decision: nothing, a revision, and a history with losers."""
    work = {
        "move": "start",
        "lease": 30,
        "form": FORMS[form],
        "order_by": ["made_at", "job_id"],
        "attempts": "attempts",
    }
    work |= {"max_attempts": 3, "not_before": "rests_until", "back": "requeue", "dead_letter": "give_up"}
    work |= {"ordering_key": "owner"} if line else {}
    kept = {"history": {"table": "job_history", "losers": True}} if told == "history" else {}
    return Lifecycle.from_dict(
        {
            "name": "Job",
            "table": "jobs",
            "key": "job_id",
            "statuses": STATUSES,
            "moves": {
                "start": {"from": ["QUEUED"], "to": "RUNNING"},
                "requeue": {"from": ["RUNNING"], "to": "QUEUED"},
                "check": {"from": ["RUNNING"], "to": "CHECKED", "sets": ["result"]},
                "finish": {"from": ["RUNNING", "CHECKED"], "to": "DONE", "sets": ["result"]},
                "give_up": {"from": ["QUEUED", "RUNNING"], "to": "DEAD"},
                "drop": {"from": ["CHECKED"], "to": "DEAD"},
            },
            "claims": {"work": work},
            **({"revision": "rev"} if told != "nothing" else {}),
            **kept,
        }
    )


COLUMNS = (
    "job_id text PRIMARY KEY, status text NOT NULL, rev bigint, made_at integer, owner text, result text, attempts integer,"
    " claimed_by text, claimed_until {time}, fence bigint, rests_until {time}, started_at {time}, error text"
)

# A row: its status, age, owner and attempts. A call: what, of which rows or claims, with what.
row = st.tuples(st.sampled_from(STATUSES), st.integers(0, 3), st.sampled_from(["ann", "bob", None]), st.integers(0, 3))
places = st.lists(st.integers(0, 5), min_size=1, max_size=4)
guard = st.sampled_from([(), (column("made_at") > 1,), (column("owner") == "ann",), (column("result").is_null(),)])
call = st.one_of(
    st.tuples(st.just("claim"), st.integers(1, 4), guard, st.integers(0, 40)),
    st.tuples(st.just("claim_one"), st.integers(0, 5), guard, st.integers(0, 40)),
    st.tuples(
        st.sampled_from(["move", "move_claim"]),
        st.sampled_from(["start", "requeue", "check", "finish", "give_up", "drop"]),
        st.integers(0, 5),
        guard,
        st.sampled_from([None, None, 0, 1, 2]),
    ),
    st.tuples(
        st.sampled_from(["move_many", "move_many_claims"]),
        st.sampled_from(["check", "finish", "give_up", "drop"]),
        places,
    ),
    st.tuples(st.sampled_from(["renew", "release", "fail"]), places, st.integers(0, 40)),
)
scenes = st.tuples(st.lists(row, min_size=3, max_size=6), st.lists(call, min_size=4, max_size=8))


class Place:
    """Where the calls are made: empties itself and says what is there."""

    def __init__(self, kind: str, db: Store, run: Callable[..., list[Any]]) -> None:
        self.kind, self.db, self.run = kind, db, run

    def fill(self, spec: Spec[str], rows: list[Any]) -> None:
        mark = "%s" if self.kind == "postgres" else "?"
        self.run("DELETE FROM jobs")
        self.run("DELETE FROM job_history")
        for number, (status, made_at, owner, attempts) in enumerate(rows):
            self.run(
                "INSERT INTO jobs (job_id, status, rev, made_at, owner, attempts)"
                f" VALUES ({mark}, {mark}, 0, {mark}, {mark}, {mark})",
                (f"j{number}", status, made_at, owner, attempts),
            )

    def rows(self) -> list[Any]:
        told = self.run("SELECT key, move, outcome, before, after, revision, actor FROM job_history ORDER BY key, id")
        return [*self.run("SELECT * FROM jobs ORDER BY job_id"), *told]


class RedisPlace(Place):
    def fill(self, spec: Spec[str], rows: list[Any]) -> None:
        client: Any = self.run
        client.flushdb()
        for number, (status, made_at, owner, attempts) in enumerate(rows):
            fields = {"job_id": f"j{number}", "status": status, "rev": 0, "made_at": made_at, "attempts": attempts}
            client.hset(f"jobs:j{number}", mapping=fields | ({"owner": owner} if owner else {}))
        self.db.offer(spec.claims["work"], [f"j{number}" for number in range(len(rows))])

    def rows(self) -> list[Any]:
        client: Any = self.run
        found: list[Any] = []
        for key in sorted(client.keys("jobs*")):
            read = {"hash": client.hgetall, "zset": lambda k: sorted(client.zrange(k, 0, -1))}
            read["stream"] = lambda k: [entry | {"call": ""} for _, entry in client.xrange(k)]
            found.append((key, read[client.type(key)](key)))
        return found


@pytest.fixture(params=["postgres", "sqlite", "redis"])
def place(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, valkey_server: ValkeyServer, tmp_path: Path
) -> Iterator[Place]:
    kind = request.param
    if kind == "postgres":
        with psycopg.connect(postgres_server.database(), autocommit=True) as own:
            own.execute(f"CREATE TABLE jobs ({COLUMNS.format(time='timestamptz')})")
            _history("postgres", own.execute)

            def run(text: str, params: tuple[Any, ...] | None = None) -> list[Any]:
                cursor = own.execute(text, params)
                return cursor.fetchall() if cursor.description else []

            yield Place(kind, bind(own), run)
    elif kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "fast.db", isolation_level=None)) as opened:
            opened.execute(f"CREATE TABLE jobs ({COLUMNS.format(time='text')})")
            _history("sqlite", opened.execute)
            yield Place(kind, bind(opened), lambda text, params=(): opened.execute(text, params).fetchall())
    else:
        with closing(redis.Redis.from_url(valkey_server.url, db=9, decode_responses=True)) as client:
            with closing(redis.Redis.from_url(valkey_server.url, db=9)) as raw:
                yield RedisPlace(kind, bind(raw), client)  # type: ignore[arg-type]


def _history(dialect: Any, execute: Callable[[str], Any]) -> None:
    for statement in ddl(declared("columns", "history", False), dialect=dialect, only="tables"):
        execute(statement)


def told(answer: Any) -> Any:
    """An answer without what differs from run to run: its local deadline."""
    if isinstance(answer, list):
        return [told(one) for one in answer]
    if not is_dataclass(answer):
        return answer
    own = {one.name: getattr(answer, one.name) for one in fields(answer) if one.name not in ("deadline", "declared")}
    return type(answer).__name__, own


def answers(place: Place, spec: Spec[str], rows: list[Any], calls: list[Any]) -> list[str]:
    """What the calls are answered, and what is there after each of them."""
    place.fill(spec, rows)
    claims: list[Claim[Any, Any]] = []
    found: list[Any] = []
    seconds = 0.0
    for asked in calls:
        answer = _made(place.db, spec, asked, claims, NOON + timedelta(seconds=seconds))
        seconds += asked[-1] if asked[0] in ("claim", "claim_one", "renew", "release", "fail") else 1
        claims += [one for one in (answer if isinstance(answer, list) else [answer]) if isinstance(one, Claim)]
        found += [asked[0], told(answer), place.rows()]
    # on SQLite a timestamp has random digits behind its milliseconds
    return [re.sub(r"(:\d\d\.\d{3})\d{6}", r"\1", repr(one)) for one in found]


def _made(db: Store, spec: Spec[str], asked: Any, claims: list[Any], now: datetime) -> Any:
    work = spec.claims["work"]
    held = (
        [claims[place % len(claims)] for place in asked[-2 if asked[0] in ("renew", "release", "fail") else -1]]
        if (claims and asked[0] in ("renew", "release", "fail", "move_many_claims"))
        else []
    )
    match asked:
        case ("claim", limit, where, _):
            return db.claim(work, limit, by="ann", where=where, now=now)
        case ("claim_one", key, where, _):
            return db.claim_one(work, f"j{key}", by="bob", where=where, now=now)
        case ("move", name, key, where, revision):
            return db.move(spec.moves[name], f"j{key}", where=where, revision=_known(spec, revision), by="eve", now=now)
        case ("move_claim", name, key, where, _):
            return db.move(spec.moves[name], claims[key % len(claims)], where=where, now=now) if claims else None
        case ("move_many", name, keys):
            keys = list(
                dict.fromkeys(keys)
            )  # a key that is named twice is answered by the first mention; see the contract
            return db.move_many(spec.moves[name], [f"j{key}" for key in keys], by="eve", now=now)
        case ("move_many_claims", name, _):
            held = list(
                {(one.key, one.fence): one for one in held}.values()
            )  # of one claim named twice, either one moves
            return db.move_many(spec.moves[name], held, now=now)
        case (name, _, _):
            return getattr(db, name)(held, now=now)


def _known(spec: Spec[str], revision: int | None) -> int | None:
    return revision if spec.revision else None


@pytest.mark.parametrize("line", [False, True], ids=["any order", "ordering_key"])
@pytest.mark.parametrize("kept", ["nothing", "revision", "history"])
@pytest.mark.parametrize("form", FORMS)
def test_fast_and_plain_give_the_same_answers_and_write_the_same_rows(
    place: Place, form: str, kept: str, line: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = declared(form, kept, line)
    programs = place.db.driver.programs
    fast = {name: getattr(programs, name) for name in PLAIN[place.kind]}
    plain = {name: make(programs.dialect) for name, make in PLAIN[place.kind].items()}

    def run(programs_of: dict[str, Any], rows: list[Any], calls: list[Any]) -> list[str]:
        numbers = count(1)
        for module in ("raceproof.claims.request", "raceproof.claims.api"):
            monkeypatch.setattr(f"{module}.uuid4", lambda: UUID(int=next(numbers)))  # the token of a marker
        for name, program in programs_of.items():
            setattr(programs, name, program)
        return answers(place, spec, rows, calls)

    @settings(
        max_examples=20,
        deadline=None,
        derandomize=True,  # a difference that one machine has found is to be found by all
        suppress_health_check=list(HealthCheck),
    )
    @given(scenes)
    def agree(scene: tuple[list[Any], list[Any]]) -> None:
        assert run(fast, *scene) == run(plain, *scene)

    agree()


def test_every_fast_program_is_compared() -> None:
    """A new file in a `fast` folder belongs into this test."""
    import raceproof

    root = Path(raceproof.__file__).parent
    found = {str(path.relative_to(root)) for path in root.glob("*/fast/*.py")}
    assert found == {
        "claims/fast/__init__.py",
        "claims/fast/postgres.py",
        "moves/fast/__init__.py",
        "moves/fast/postgres.py",
        "moves/fast/postgres_ends.py",
        "moves/fast/redis.py",
        "moves/fast/sharing.py",  # which calls share a statement: tests/library/coalesce
        "moves/fast/sqlite.py",
    }
