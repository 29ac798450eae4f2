"""A server that is killed and comes back while workers claim, send and finish: no row lost, no finish twice."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from raceproof import Claim, Spec, Unknown, connect
from raceproof.testing import Server, postgres, valkey
from tests.crash.actors import Actor, Outside, Stage
from tests.crash.test_claims import account, prepared
from tests.race.places import Place, PostgresPlace, RedisPlace

ROWS = 60
WORKERS = 3
PACE = 3
"""Rows that a worker finishes before it asks whether to go on, so that a quick one leaves enough for the others."""


@pytest.fixture(params=["postgres", "valkey"])
def mortal(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server to maltreat."""
    with postgres() if request.param == "postgres" else valkey() as server:
        yield server


def part(place: Place, spec: Spec[str], outside: Outside, stage: Stage) -> None:
    """A careful worker: an error on the way is met by asking again, an unknown end by asking for the same."""
    name = f"worker {os.getpid()}"
    ended = 0
    with connect(place.url) as db:
        while True:
            try:
                claims = db.claim(spec.claims["work"], 2, by=name)
            except Exception:
                stage.tell("felt")
                continue
            for one in claims:
                outside.send(key=one.key, fence=one.fence, by=name, attempt=one.attempt)
                stage.tell("ended", finish(db, spec, one, name, stage))
                ended += 1
                if ended % PACE == 0:
                    stage.reach("paused")


def finish(db: Any, spec: Spec[str], one: Claim[str, Any], name: str, stage: Stage) -> str:
    call = f"finish {one.key} {one.fence}"
    while True:
        try:
            answer = db.move(spec.moves["finish"], one, set={"result": name}, by=name, call=call)
        except Exception:
            stage.tell("felt")
            continue
        if not isinstance(answer, Unknown):
            return str(answer.outcome)
        stage.tell("felt")


def test_workers_lose_no_row_and_finish_none_twice(mortal: Server, outside: Outside) -> None:
    """Twice in the middle of it; each finish that was told is in the history once, and nothing else is."""
    kind = PostgresPlace if mortal.url.startswith("postgres") else RedisPlace
    place = kind(mortal.url)
    keys = [f"j{number}" for number in range(ROWS)]
    spec = prepared(place, *keys)
    actors = [Actor(lambda stage: part(place, spec, outside, stage)) for _ in range(WORKERS)]
    try:
        for _ in range(2):
            for actor in actors:
                for _ in range(PACE):
                    assert actor.until("ended")[0] in ("moved", "lost")
                actor.until("paused")
            for actor in actors:
                actor.go()
            mortal.kill()
            for actor in actors:
                actor.go()  # one that was quicker than the kill has paused again
                actor.until("felt")
            mortal.restart()
        for actor in actors:
            for _ in range(ROWS):
                actor.go()
        with connect(place.url) as db:
            while any((db.read(spec, key) or {})["status"] != "DONE" for key in keys):
                pass
    finally:
        for actor in actors:
            actor.__exit__()
    with connect(place.url) as db:
        account(db, spec, keys, outside)
