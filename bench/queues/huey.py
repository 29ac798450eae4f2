"""Huey, on SQLite and on Redis; best: no results, no periodic tasks, and on Redis four processes.

On SQLite one worker is the quickest: more of them wait for each other and for who hands in.

It takes an item out of the store before the work, so a worker that dies loses it: that is how it is made.
"""

from collections.abc import Sequence
from typing import Any

import huey  # type: ignore[import-untyped]

from bench.queues.queue import Ran


class _Huey:
    def __init__(self, queue: Any, options: dict[str, Any]) -> None:
        self._huey = queue
        self._options = options
        self._ran: Ran | None = None

        def work(item: int) -> None:
            assert self._ran
            self._ran(item)

        self._task = queue.task(name="work")(work)

    async def set_up(self) -> None:
        self._huey.pending_count()

    async def enqueue(self, items: Sequence[int]) -> None:
        for item in items:
            self._task(item)

    async def unfinished(self) -> int:
        return int(self._huey.pending_count())

    async def close(self) -> None:
        self._huey.storage.close()

    def work(self, ran: Ran) -> None:
        self._ran = ran
        self._huey.create_consumer(**self._options).run()


class HueyOnSqlite(_Huey):
    """The file is in write-ahead mode, with SQLite's own default of a full sync."""

    def __init__(self, url: str, tuned: bool) -> None:
        options: dict[str, Any] = {"results": False, "cache_mb": 64} if tuned else {}
        super().__init__(huey.SqliteHuey("bench", filename=url, **options), {"periodic": False} if tuned else {})


class HueyOnRedis(_Huey):
    """Items are a list, and workers wait in a blocking pop."""

    def __init__(self, url: str, tuned: bool) -> None:
        options: dict[str, Any] = {"results": False} if tuned else {}
        best = {"workers": 4, "worker_type": "process", "periodic": False}
        super().__init__(huey.RedisHuey("bench", url=url, **options), best if tuned else {})
