"""A warm connection for sync `connect(url)`: shared by threads one call at a time, opened again when cut."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from raceproof.driver import Driver
from raceproof.kernel.errors import CallError
from raceproof.kernel.sqlstate import leaves
from raceproof.kernel.statement import Program
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest

T = TypeVar("T")


class WarmDriver(Driver):
    """A sync driver on one warm connection, shared by threads one call at a time."""

    def __init__(self, open: Callable[[], Any], drive: Callable[[Any], Driver], patience: float | None = None) -> None:
        self._open = open
        self._drive = drive
        self._lock = threading.Lock()
        self._patience = -1 if patience is None else patience
        self._closed = False
        self._connection: Any = open()
        self._tells_closed = hasattr(self._connection, "closed")
        self._driver = drive(self._connection)
        super().__init__(self._driver.dialect)

    def run(self, program: Program[T]) -> T:
        self._take_turn()
        try:
            return self._warm().run(program)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._lock.release()

    def move(self, request: MoveRequest) -> Answer[Any, Any]:
        self._take_turn()
        try:
            return self._warm().move(request)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            self._lock.release()

    @property
    def backend_pid(self) -> int | None:
        return self._driver.backend_pid

    def _take_turn(self) -> None:
        """The connection for one call; nothing of it is sent before it has its turn."""
        if not self._lock.acquire(timeout=self._patience):
            raise TimeoutError(
                "another call has been using the connection of this store, and it has not ended within "
                f"{self._patience:g} s (command_timeout); nothing was sent"
            )

    def _give_up(self, error: BaseException) -> None:
        """The next call gets a new connection: after Ctrl-C psycopg may be in the middle of a statement, and from a server
        that takes no writes any more the URL may lead to the new primary."""
        if self._tells_closed and (not isinstance(error, Exception) or leaves(error)):
            self._connection.close()

    def _warm(self) -> Driver:
        if self._closed:
            raise CallError("the store is closed")
        # only psycopg says that its connection is gone; sqlite3 has none to lose, redis-py connects again by itself
        if self._tells_closed and self._connection.closed:
            self._connection = self._open()
            self._driver = self._drive(self._connection)
        return self._driver

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._connection.close()
