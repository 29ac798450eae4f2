"""A server that is killed and comes back while workers claim, send and finish: no row lost, no finish twice."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from raceproof import Claim, Spec, Store, Unknown, connect
from raceproof.testing import Server, postgres, valkey
from tests.crash.actors import Actor, Outside, Stage
from tests.crash.test_claims import account, prepared
from tests.race.places import Place, PostgresPlace, RedisPlace

T = TypeVar("T")

ROWS = 60
WORKERS = 3
PACE = 3
"""Rows that a worker finishes before it asks whether to go on, so that a quick one leaves enough for the others."""


@pytest.fixture(params=["postgres", "valkey"])
def mortal(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server to maltreat."""
    with postgres() if request.param == "postgres" else valkey() as server:
        yield server


class Patient:
    """A careful worker: an error on the way is met by asking again, an unknown end by asking for the same.

    It tells once that it has felt an outage: a pipe that nobody reads has room for so many words.
    """

    def __init__(self, db: Store, spec: Spec[str], stage: Stage) -> None:
        self._db, self._spec, self._stage = db, spec, stage
        self._name = f"worker {os.getpid()}"
        self._felt = False

    def claim(self) -> list[Claim[str, Any]]:
        return self._asked(lambda: self._db.claim(self._spec.claims["work"], 2, by=self._name))

    def finish(self, one: Claim[str, Any]) -> str:
        call = f"finish {one.key} {one.fence}"
        finish = self._spec.moves["finish"]
        answer: Any = self._asked(
            lambda: self._db.move(finish, one, set={"result": self._name}, by=self._name, call=call)
        )
        return str(answer.outcome)

    def _asked(self, ask: Callable[[], T | Unknown[Any]]) -> T:
        while True:
            with suppress(Exception):
                answer = ask()
                if not isinstance(answer, Unknown):
                    self._felt = False
                    return answer
            if not self._felt:
                self._stage.tell("felt")
            self._felt = True


def part(place: Place, spec: Spec[str], outside: Outside, stage: Stage) -> None:
    name = f"worker {os.getpid()}"
    ended = 0
    with connect(place.url) as db:
        worker = Patient(db, spec, stage)
        while True:
            for one in worker.claim():
                outside.send(key=one.key, fence=one.fence, by=name, attempt=one.attempt)
                stage.tell("ended", worker.finish(one))
                ended += 1
                if ended % PACE == 0:
                    stage.reach("paused")


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
