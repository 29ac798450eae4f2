"""What an explored process holds: the library's store, one statement at a time, and plain SQL beside it.

What commits together is one step: a statement by itself, or a program's statements from BEGIN to COMMIT, since nobody can
see anything of them before the COMMIT and nobody else can write in between. A step's answer can get lost.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from raceproof.driver import AsyncDriver
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import AcknowledgementLost, Program, Rows, Statement, run
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest
from raceproof.store import AsyncStore
from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.process import Operation, Process

if TYPE_CHECKING:
    from raceproof.testing.explorer.run import Run

T = TypeVar("T")

_IN_TRANSACTION = (
    Fate.DONE,
    Fate.DIES_BEFORE,
    Fate.DIES_AFTER,
    Fate.FAILS,
    Fate.CANCELLED_BEFORE,
    Fate.CANCELLED_AFTER,
)


_CONTROL = frozenset(("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"))


class StoreUnreachable(ConnectionError):
    """A fault: the statement did not reach the store, or its answer did not come back."""


class ExploredDriver(AsyncDriver):
    """One more driver: each step waits until the schedule lets it happen."""

    def __init__(self, explored: "Run", process: Process) -> None:
        ground = explored.ground
        super().__init__(ground.programs.dialect)
        self.programs = ground.programs
        self._explored = explored
        self._process = process
        self.in_transaction = False

    @property
    def settled(self) -> bool:
        return not self.in_transaction

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        program = partial(self.programs.moves.one, request)
        return await self._steps(program(), lambda: f"{request.move} {request.key!r}", program)

    async def run(self, program: Program[T]) -> T:
        return await self._steps(program, None)

    async def _steps(
        self, program: Program[T], label: Callable[[], str] | None, again: Callable[[], Program[T]] | None = None
    ) -> T:
        if self._explored.whole_calls:
            whole: _Whole[T] = await self._wait(lambda: _name(program), lambda: self._whole(program), plain=True)
            return whole.result
        try:
            statement = next(program)
            sent: list[Rows] = []
            while True:
                if statement.text == "ROLLBACK":
                    statement = program.send(())  # the step has rolled back itself
                    continue
                if self._explored.ground.learns(statement):
                    sent.append(self._explored.ground.execute(statement))
                    statement = program.send(sent[-1])
                    continue
                step = _Step(self, program, statement)
                trial: Callable[[], Rows] | None = step.apply
                if statement.text == "BEGIN":
                    trial = None if again is None else partial(self._step_again, again, *sent)
                    again = None  # what it is sent in this step is not kept
                try:
                    sent.append(await self._wait(label or step.label, step.apply, trial=trial))
                except BaseException as error:
                    again = None
                    statement = program.throw(error)
                else:
                    statement = program.send(sent[-1])
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _step_again(self, again: Callable[[], Program[Any]], *sent: Rows) -> Rows:
        """The same step of the same call made once more, after the same answers."""
        program = again()
        statement = next(program)
        for rows in sent:
            statement = program.send(rows)
        try:
            return _Step(self, program, statement).apply()
        finally:
            program.close()

    def _whole(self, program: Program[T]) -> "_Whole[T]":
        """All statements of a call at once."""
        ground, process = self._explored.ground, self._process

        def execute(statement: Statement) -> Rows:
            rows = ground.execute(statement)
            process.observe(ground.observed(rows))
            return rows

        return _Whole(run(execute, program))

    async def execute(self, statement: Statement) -> Rows:
        rows: Rows = await self._wait(lambda: statement.name, lambda: self._explored.ground.execute(statement))
        return rows

    async def sql(self, text: str, params: Sequence[Any]) -> Rows:
        """A statement of the user's own."""
        apply = partial(self._explored.ground.sql, text, params)
        rows: Rows = await self._wait(lambda: shortened(text, params), apply, plain=True, trial=apply)
        return rows

    async def begin(self) -> None:
        def apply() -> None:
            self._explored.open_transaction(self._process)
            self._explored.ground.begin()
            self.in_transaction = True

        await self._wait(lambda: "BEGIN", apply, plain=True)

    async def commit(self) -> None:
        await self._wait(lambda: "COMMIT", lambda: self._close(self._explored.ground.commit), plain=True, ends=True)

    def rollback(self) -> None:
        """At once: nobody can tell when it happens."""
        if self.in_transaction:
            self._close(self._explored.ground.rollback)

    def _close(self, how: Callable[[], None]) -> None:
        if self.in_transaction and not self._explored.over:
            self.in_transaction = False
            how()
            self._explored.close_transaction()

    async def _wait(
        self,
        label: Callable[[], str],
        apply: Callable[[], Any],
        plain: bool = False,
        ends: bool = False,
        trial: Callable[[], Any] | None = None,
    ) -> Any:
        def error(fate: Fate) -> BaseException:
            lost = StoreUnreachable("the answer was lost" if fate is Fate.UNANSWERED else "the store was not reached")
            if self.in_transaction:
                self.rollback()  # its connection is gone, and the transaction with it
                return lost
            if fate is Fate.UNANSWERED and not plain:
                acknowledgement = AcknowledgementLost()
                acknowledgement.__cause__ = lost
                return acknowledgement
            return lost

        future = self._explored.loop.create_future()
        operation = Operation(self._process, label, apply, future, uses_store=True, errors=error)
        operation.trial = trial
        if self.in_transaction and not ends:
            operation.fates = _IN_TRANSACTION
        self._explored.submit(operation)
        return await future


class _Whole(Generic[T]):
    """What a whole call returns; what was observed of it are its rows."""

    def __init__(self, result: T) -> None:
        self.result = result

    def __repr__(self) -> str:
        return ""


class _Step:
    """What a program does up to where others can see it: one statement, or all from BEGIN to COMMIT."""

    __slots__ = ("_driver", "_names", "_program", "_statement")

    def __init__(self, driver: ExploredDriver, program: Program[Any], statement: Statement) -> None:
        self._driver = driver
        self._program = program
        self._statement = statement
        self._names = [statement.name]

    def label(self) -> str:
        names = [name for name in self._names if name not in ("begin", "commit", "rollback")]
        return ", ".join(dict.fromkeys(names)) or "transaction"

    def apply(self) -> Rows:
        ground, program, process = self._driver._explored.ground, self._program, self._driver._process
        statement = self._statement
        if statement.text != "BEGIN":
            return ground.execute(statement)
        ground.begin()
        rows: Rows = ()
        error: Exception | None = None
        while True:
            statement = program.send(rows) if error is None else program.throw(error)
            self._names.append(statement.name)
            if statement.text in ("COMMIT", "ROLLBACK"):
                (ground.commit if statement.text == "COMMIT" else ground.rollback)()
                return ()  # what follows is seen by nobody before the next step
            try:
                rows, error = ground.execute(statement), None
                process.observe(ground.observed(rows))
            except Exception as raised:
                error = raised


class Connection(AsyncStore):
    """The library's store for one explored process; and plain SQL, for what does not use the library."""

    driver: ExploredDriver

    async def execute(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run one statement of your own and get its rows. It commits by itself, or with the `transaction` around it."""
        if _is_control(text):
            raise CallError(f"{text!r}: say `async with db.transaction():` here, so that the explorer knows of it")
        return [tuple(row) for row in await self.driver.sql(text, params)]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """What is written in this block is committed together, or not at all."""
        if self.driver.in_transaction:
            raise CallError("a transaction is open here already; one in another is not explored")
        try:
            await self.driver.begin()
            yield
        except BaseException:
            self.driver.rollback()
            raise
        await self.driver.commit()


@cache
def _is_control(text: str) -> bool:
    return text.split(None, 1)[0].upper().rstrip(";") in _CONTROL if text.strip() else False


def _name(program: Program[Any]) -> str:
    """The call that a program belongs to."""
    return str(getattr(program, "__name__", "call")).strip("_").replace("_", " ")


def shortened(text: str, params: Sequence[Any] = ()) -> str:
    """A statement in one line, with its values."""
    line = " ".join(text.split())
    for value in params:
        line = line.replace("?", repr(value), 1)
    return line
