"""What a store is to the rest of the library: it runs programs, and knows those of its dialect."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from raceproof.declare.spec import Claimable
from raceproof.kernel.statement import Program, Rows, Statement, arun, run
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest
from raceproof.programs import Programs

T = TypeVar("T")


class Driver:
    """Runs statements on one kind of sync connection."""

    def __init__(self, dialect: Any) -> None:
        self.dialect = dialect
        self.programs = Programs(dialect)

    @property
    def settled(self) -> bool:
        """Whether a decision is final when the call returns; in a transaction of the caller's it is not."""
        return True

    @property
    def backend_pid(self) -> int | None:
        """The PostgreSQL process that the server named when the connection was made; None where that is unknown."""
        return None

    def execute(self, statement: Statement) -> Rows:
        raise NotImplementedError

    def run(self, program: Program[T]) -> T:
        return run(self.execute, program)

    def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return run(self.execute, self.programs.moves.one(request))

    def close(self) -> None:
        """Close what this driver opened itself, which is nothing for a connection of the caller's."""


class AsyncDriver:
    """Runs statements on one kind of async connection."""

    shared = False
    """Whether its connections are its own, for all who call; on the caller's, a call ends when its caller goes on."""

    def __init__(self, dialect: Any) -> None:
        self.dialect = dialect
        self.programs = Programs(dialect)
        self.batchers: dict[Any, Any] = {}
        """What gathers the calls of this process, for each thing that they are about."""
        self._waiting: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)

    @property
    def settled(self) -> bool:
        """Whether a decision is final when the call returns; in a transaction of the caller's it is not."""
        return True

    @property
    def backend_pid(self) -> int | None:
        """The PostgreSQL process that the server named when the connection was made; None where that is unknown."""
        return None

    async def execute(self, statement: Statement) -> Rows:
        raise NotImplementedError

    async def run(self, program: Program[T]) -> T:
        return await arun(self.execute, program)

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await arun(self.execute, self.programs.moves.one(request))

    def wake(self, claim: Claimable[Any]) -> None:
        """Wake up the workers of this process that wait on this driver for rows of a claim."""
        if self._waiting:
            for wake in self._waiting.get(claim.topic, ()):
                wake()

    @contextmanager
    def woken(self, claim: Claimable[Any], wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` whenever rows of a claim are offered on this driver, for as long as the block lasts."""
        waiting = self._waiting[claim.topic]
        waiting.append(wake)
        try:
            yield
        finally:
            waiting.remove(wake)

    async def listen(self, claim: Claimable[Any], wake: Callable[[], None]) -> None:
        """Call `wake` whenever rows of a claim are offered; on a connection of the caller's nothing is listened to."""

    async def close(self) -> None:
        """Close what this driver opened itself, which is nothing for a connection of the caller's."""
