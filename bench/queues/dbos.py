"""DBOS, each item a workflow on a queue; best: handed in by transactions of many, polled often, more connections.

Its client and its worker are separate on purpose, as its manual has it for two processes. The worker looks at its queue
once a second by default, and takes all that it finds.
"""

import threading
from collections.abc import Sequence
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.queues.queue import Ran

_BATCH_IN = 200
_OFTEN = 0.05
_CONNECTIONS = 20
_VERSION = "bench"
_OPTIONS: EnqueueOptions = {"workflow_name": "work", "queue_name": "items", "app_version": _VERSION}


class Dbos:
    """Finished workflows stay in its table as SUCCESS."""

    def __init__(self, url: str, tuned: bool) -> None:
        self._url = url.replace("postgresql:", "postgresql+psycopg:")
        self._tuned = tuned
        self._client: Any = None
        self._engine: Any = None

    async def set_up(self) -> None:
        DBOS.migrate(self._url)
        self._client = DBOSClient(system_database_url=self._url)
        self._engine = sqlalchemy.create_engine(self._url)

    async def enqueue(self, items: Sequence[int]) -> None:
        if not self._tuned:
            for item in items:
                self._client.enqueue(_OPTIONS, item)
            return
        for start in range(0, len(items), _BATCH_IN):
            with self._engine.begin() as connection:
                for item in items[start : start + _BATCH_IN]:
                    self._client.enqueue_in_transaction(connection, _OPTIONS, item)

    async def unfinished(self) -> int:
        with self._engine.connect() as connection:
            found: int = connection.execute(
                sqlalchemy.text("SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'")
            ).scalar_one()
        return found

    async def close(self) -> None:
        self._client.destroy()
        self._engine.dispose()

    def work(self, ran: Ran) -> None:
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": self._url,
            "application_version": _VERSION,
            "log_level": "WARNING",
        }
        if self._tuned:
            config["sys_db_pool_size"] = _CONNECTIONS
        DBOS(config=config)

        @DBOS.workflow(name="work")
        def work(item: int) -> None:
            ran(item)

        DBOS.launch()
        if self._tuned:
            DBOS.register_queue("items", worker_concurrency=4 * _CONNECTIONS, polling_interval_sec=_OFTEN)
        else:
            DBOS.register_queue("items")
        threading.Event().wait()
