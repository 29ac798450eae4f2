"""A server that is killed and comes back in the middle of what several processes do, twice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from raceproof import Unknown
from raceproof.testing import Server
from tests.promises.crash.actors import Actor, Stage
from tests.promises.race.places import Place, PostgresPlace, RedisPlace

ACTORS = 3
PACE = 3
"""What a process does before it asks whether to go on, so that a quick one leaves enough for the others."""


def place_of(mortal: Server) -> Place:
    kind = PostgresPlace if mortal.url.startswith("postgres") else RedisPlace
    return kind(mortal.url)


class Patient:
    """One that asks again: after an error, and, if it does not know the end of its call, with the same call.

    It tells once that it has felt an outage: a pipe that nobody reads has room for so many words. After so many things
    that it has done it waits.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._felt = False
        self._done = 0

    def asked(self, ask: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """What a call is answered in the end."""
        while True:
            with suppress(Exception):
                answer = ask(*args, **options)
                if not isinstance(answer, Unknown):
                    self._felt = False
                    return answer
            if not self._felt:
                self._stage.tell("felt")
            self._felt = True

    def done(self, *told: Any) -> None:
        """One thing is done."""
        self._stage.tell("ended", *told)
        self._done += 1
        if self._done % PACE == 0:
            self._stage.reach("paused")


@contextmanager
def through_two_crashes(mortal: Server, part: Callable[[Stage], None]) -> Iterator[list[Actor]]:
    """Several processes play the part, and the server is killed while all are at it; they go on until the block ends."""
    actors = [Actor(part) for _ in range(ACTORS)]
    try:
        for _ in range(2):
            for actor in actors:
                for _ in range(PACE):
                    actor.until("ended")
                actor.until("paused")
            for actor in actors:
                actor.go()
            mortal.kill()
            for actor in actors:
                actor.go()  # one that was quicker than the kill has paused again
                actor.until("felt")
            mortal.restart()
        yield actors
    finally:
        for actor in actors:
            actor.__exit__()
