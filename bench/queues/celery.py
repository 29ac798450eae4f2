"""Celery on Redis; best: one producer for all, deep prefetch, and a worker that runs items itself
(its pool "solo" is the quickest for no-ops) and does not talk to other workers.

It acknowledges an item when a process gets it, before the work: that is its default, and stays.
"""

from collections.abc import Sequence

import redis
from celery import Celery as App  # type: ignore[import-untyped]

from bench.queues.queue import Ran


class Celery:
    """Finished items are gone; there is no result backend."""

    def __init__(self, url: str, tuned: bool) -> None:
        self._tuned = tuned
        self._client = redis.Redis.from_url(url)
        self._app = App("bench", broker=url)
        self._app.conf.broker_connection_retry_on_startup = True
        if tuned:
            self._app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=128)
        self._ran: Ran | None = None

        def work(item: int) -> None:
            assert self._ran
            self._ran(item)

        self._task = self._app.task(name="work")(work)

    async def set_up(self) -> None:
        self._client.ping()

    async def enqueue(self, items: Sequence[int]) -> None:
        if not self._tuned:
            for item in items:
                self._task.delay(item)
            return
        with self._app.producer_pool.acquire(block=True) as producer:
            for item in items:
                self._task.apply_async((item,), producer=producer)

    async def unfinished(self) -> int:
        waiting = self._client.llen("celery")
        taken = self._client.hlen("unacked")
        return int(str(waiting)) + int(str(taken))

    async def close(self) -> None:
        self._app.close()
        self._client.close()

    def work(self, ran: Ran) -> None:
        self._ran = ran
        best = ["--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        self._app.worker_main(["worker", *(best if self._tuned else [])])
