"""What a store is to the rest of the library: it runs programs, and knows which programs its dialect has."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from raceproof.moves import MoveRequest
from raceproof.moves.request import KeyParts
from raceproof.outcome import Answer, Claim
from raceproof.primitives import Primitives
from raceproof.spec import Claimable, Spec
from raceproof.statement import Program, Rows, Statement, Style, arun, run

T = TypeVar("T")


class Moves(Protocol):
    """The programs of moves in one dialect."""

    style: Style

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]: ...
    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]: ...
    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """None for a row that has moved from the one source of the move, with no more to tell."""
        ...

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]: ...
    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]: ...
    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]: ...


class _WithPrimitives:
    """The programs of a dialect, of moves and of all else."""

    moves: Moves
    _primitives: Primitives | None = None

    @property
    def primitives(self) -> Primitives:
        """Made once for the moves that there are now: a pool learns the server's version with its first connection."""
        made = self._primitives
        if made is None or made.moves is not self.moves:
            made = self._primitives = Primitives(self.moves)
        return made


class Driver(_WithPrimitives):
    """Runs statements on one kind of sync connection."""

    dialect: str

    @property
    def settled(self) -> bool:
        """Whether a decision is final when the call returns; in a transaction of the caller's it is not."""
        return True

    def execute(self, statement: Statement) -> Rows:
        raise NotImplementedError

    def run(self, program: Program[T]) -> T:
        return run(self.execute, program)

    def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return run(self.execute, self.moves.one(request))

    def close(self) -> None:
        """Close what this driver opened itself, which is nothing for a connection of the caller's."""


class AsyncDriver(_WithPrimitives):
    """Runs statements on one kind of async connection."""

    dialect: str
    shared = False
    """Whether its connections are its own, for all who call; on the caller's, a call ends when its caller goes on."""

    @property
    def settled(self) -> bool:
        """Whether a decision is final when the call returns; in a transaction of the caller's it is not."""
        return True

    async def execute(self, statement: Statement) -> Rows:
        raise NotImplementedError

    async def run(self, program: Program[T]) -> T:
        return await arun(self.execute, program)

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await arun(self.execute, self.moves.one(request))

    def wake(self, claim: Claimable[Any]) -> None:
        """Wake up the workers of this process that wait on this driver for rows of a claim."""
        waiting = self.__dict__.get("_waiting_workers")
        if waiting:
            for wake in waiting.get(claim.topic, ()):
                wake()

    @contextmanager
    def woken(self, claim: Claimable[Any], wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` whenever rows of a claim are offered on this driver, for as long as the block lasts."""
        waiting: list[Callable[[], None]] = self.__dict__.setdefault("_waiting_workers", {}).setdefault(
            claim.topic, []
        )
        waiting.append(wake)
        try:
            yield
        finally:
            waiting.remove(wake)

    async def listen(self, claim: Claimable[Any], wake: Callable[[], None]) -> None:
        """Call `wake` whenever rows of a claim are offered; on a connection of the caller's nothing is listened to."""

    async def close(self) -> None:
        """Close what this driver opened itself, which is nothing for a connection of the caller's."""
