"""Dramatiq on Redis; best: no middleware but retries. Fewer threads, or more, than its eight for a process are slower.

Its worker imports actors by the name of a module, so this one makes them from the worker's setting.
"""

import os
from collections.abc import Sequence
from typing import Any

import dramatiq
from dramatiq import cli
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries

from bench.queues.queue import Ran
from bench.queues.tally import Tally
from bench.queues.worker import SETTING


def broker_of(url: str, tuned: bool) -> RedisBroker:
    kind: Any = RedisBroker  # it has no types
    broker: RedisBroker = kind(url=url, middleware=[Retries()]) if tuned else kind(url=url)
    return broker


def actor_of(broker: RedisBroker, ran: Ran | None) -> Any:
    def work(item: int) -> None:
        assert ran
        ran(item)

    return dramatiq.actor(broker=broker, actor_name="work")(work)


def set_up_the_worker() -> None:
    """What `dramatiq bench.queues.dramatiq:set_up_the_worker` calls in each of its processes."""
    _, url, mode, tally = os.environ[SETTING].split("\n")
    broker = broker_of(url, mode == "best")
    dramatiq.set_broker(broker)
    actor_of(broker, Tally(tally).ran)


class Dramatiq:
    """Finished items are gone; it acknowledges after the work."""

    def __init__(self, url: str, tuned: bool) -> None:
        self._tuned = tuned
        self._broker = broker_of(url, tuned)
        self._actor = actor_of(self._broker, None)

    async def set_up(self) -> None:
        self._broker.client.ping()

    async def enqueue(self, items: Sequence[int]) -> None:
        for item in items:
            self._actor.send(item)

    async def unfinished(self) -> int:
        return int(self._broker.client.hlen("dramatiq:default.msgs"))

    async def close(self) -> None:
        self._broker.close()

    def work(self, ran: Ran) -> None:
        command: Any = cli
        command.main(command.make_argument_parser().parse_args([f"{__name__}:set_up_the_worker"]))
