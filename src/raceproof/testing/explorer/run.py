"""One run of a scenario: the schedule says what happens next, and where it ends, the default goes on.

A choice is made only where processes can see each other: at a statement, an effect, a timer that is due, a start. Between
two of these a process runs until it waits again. A process that dies runs no `finally` and no `__aexit__`; its transaction
is rolled back, and its tasks are kept until the run is over, so that nothing of them is cleaned up in the middle.
"""

import asyncio
from asyncio import events as asyncio_events
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any, TypeVar

from raceproof.kernel import identity
from raceproof.kernel.events import Event
from raceproof.testing.explorer.action import WAIT, Action, Fate, Faults, allowed
from raceproof.testing.explorer.connection import Connection, ExploredDriver
from raceproof.testing.explorer.expiries import Spans
from raceproof.testing.explorer.ground import Ground, Tables
from raceproof.testing.explorer.loop import Handle, VirtualLoop
from raceproof.testing.explorer.process import SURE, UNSEEN, Knowing, Operation, Process, State
from raceproof.testing.explorer.watch import Watch
from raceproof.testing.explorer.world import World

T = TypeVar("T")

MOST_STEPS = 500
"""A run that is longer than this goes round in circles."""
_TICK, _SECOND = 0.001, 1.0
"""Something that is over at a moment is surely over just after it; a second later where that is reckoned in numbers."""


class Over(BaseException):
    """Whatever is left of a run when it is over ends with this."""


@dataclass(slots=True)
class Step:
    """One row of the table that people read."""

    number: int
    process: str | None
    """None: time passes."""
    title: str
    operation: str
    fate: Fate
    answer: str
    clock: float
    tables: Tables
    told: list[str] = field(default_factory=list)


class Run:
    """One execution of a scenario. `limits` bounds which faults are offered; `record` keeps what people want to see.

    With `whole_calls` a call of the library is one step, however many statements its store needs for it.
    """

    def __init__(
        self, world: World, ground: Ground, limits: Faults, record: bool = False, whole_calls: bool = False
    ) -> None:
        self.world = world
        self.ground = ground
        self.limits = limits
        self.whole_calls = whole_calls
        self.watch = Watch(world, ground)
        self.loop = VirtualLoop(self._timer, self._task)  # type: ignore[abstract]  # refuses what it does not have
        self.clock = 0.0
        self.step = 0
        self.used = Faults()
        self.current: Process | None = None
        self.processes = [Process(index, one.name, one.body, one.restarts) for index, one in enumerate(world.processes)]
        self.steps: list[Step] | None = [] if record else None
        self.waits: list[float] | None = None
        """Where time goes when it passes, if that is given; else to the next timer or expiry."""
        self._spans = Spans(world.spans)
        self._graveyard: list[Any] = []
        self._transaction_of: Process | None = None
        self._acting: object = None
        self._checks = False
        self.went_on: dict[Knowing, State] = {}
        """How the code of a process has gone on from what it knew, in this run and in those before."""
        self.over = False

    # life of a run

    def __enter__(self) -> "Run":
        self._outer = asyncio_events._get_running_loop()
        asyncio_events._set_running_loop(self.loop)
        for effect in self.world.effects.values():
            effect._run = self
        for process in self.processes:
            self._offer_start(process)
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        if self._transaction_of is not None:
            self.ground.rollback()
        for effect in self.world.effects.values():
            effect._run = None
        for process in self.processes:
            if any(not task.done() for task in process.tasks):
                self._graveyard.append(process.tasks)
            process.forget()
        self.loop.clear()
        asyncio_events._set_running_loop(self._outer)

    def remains(self) -> list[Any]:
        """What must not be cleaned up while another run goes on."""
        return self._graveyard

    @property
    def broken(self) -> str | None:
        """What must hold and did not."""
        return self.watch.broken

    # what is possible now

    def enabled(self, process: Process) -> list[Operation]:
        """Its operations that can happen now; while one process is in a transaction nobody else is at the store."""
        owner = self._transaction_of
        if owner is None or owner is process:
            return process.pending
        return [operation for operation in process.pending if not operation.uses_store]

    def default(self) -> Action | None:
        """What happens if nothing is disturbed: the current process goes on; if it waits, the next one that can."""
        current = self.current
        if current is not None and self._goes_on():
            return Action(current.index)
        for process in self.processes:
            if self.enabled(process):
                return Action(process.index)
        return WAIT if self._next_timer() is not None else None

    def _goes_on(self) -> bool:
        """Whether the current process lives and has something to do, so that to turn to another one is a deviation."""
        current = self.current
        return current is not None and current.main is not None and bool(self.enabled(current))

    def alternatives(self, usual: Action) -> Iterator[tuple[int, Action]]:
        """Everything else that can happen now, each with the number of deviations that it costs."""
        if usual == WAIT:
            return
        current, goes_on = self.current, self._goes_on()
        for process in self.processes:
            for place, operation in enumerate(self.enabled(process)):
                switch = int((goes_on and process is not current) or place > 0)
                action = Action(process.index, place)
                if action != usual:
                    yield switch, action
                for fate in allowed(self.used, self.limits, operation.fates):
                    yield switch + 1, Action(process.index, place, fate)
        if self._next_moment() is not None:
            yield 1, WAIT

    def can(self, action: Action) -> bool:
        """Whether this can happen now."""
        if action == WAIT:
            return bool(self.waits) or (self._next_moment() if self._anybody() else self._next_timer()) is not None
        ready = self.enabled(self.processes[action.process])
        return action.place < len(ready) and action.fate in ready[action.place].fates

    def key(self) -> object:
        """The state: two runs with the same one go on alike."""
        current, owner = self.current, self._transaction_of
        return (
            self.outside(),
            current.index if current else -1,
            owner.index if owner else -1,
            tuple([process.state() for process in self.processes]),
        )

    def outside(self) -> object:
        """All of the state but the processes."""
        return self.watch.state(), self.clock, self.ground.expiries(), self._spans.state()

    def operation(self, action: Action) -> Operation:
        """What an action is about."""
        return self.enabled(self.processes[action.process])[action.place]

    @property
    def in_transaction(self) -> bool:
        return self._transaction_of is not None

    def aside(self, look: Callable[[], T]) -> T | None:
        """Look at something that is undone at once; None where that is not possible."""
        if self.world.changes or self.world.spans:
            return None
        return self.watch.aside(lambda: self.ground.aside(look))

    def seen(self, operation: Operation, answer: object, error: BaseException | None) -> object:
        """What a process can tell of how its operation went."""
        if error is not None:
            return repr(error)
        return self.ground.observed(answer) if operation.uses_store else repr(answer)

    # what happens

    def take(self, action: Action, check: bool = True) -> None:
        """One step; with `check` what must hold is looked at, and how the code went on is kept."""
        self.step += 1
        self._checks = check
        before = self.watch.before() if check else None
        if action == WAIT:
            self._wait()
        else:
            operation = self.operation(action)
            if action.fate is Fate.DONE and self.steps is None:
                self.current = operation.process
                self._happens(operation)
            else:
                self._disturbed(operation, action.fate)
        if self.steps is not None:
            self.steps[-1].tables = self.watch.tables()
        if check and self.watch.broken is None:
            self.watch.check(before)

    def _wait(self) -> None:
        target = self._next_moment() if self._anybody() else self._next_timer()
        if self.waits is not None:
            target = self.waits.pop(0) if self.waits else target
        assert target is not None
        passed = target - self.clock
        self._set_clock(target)
        if self.steps is not None:
            self._record(None, f"{passed:g} s pass", Fate.DONE)
        for process in self.processes:
            for handle in process.fire_timers(self.clock):
                self._fire(process, handle)

    def _happens(self, operation: Operation, fate: Fate = Fate.DONE) -> None:
        """It is done, and its process learns how it went; unless the answer is lost."""
        process = operation.process
        process.pending.remove(operation)
        answer: object = None
        error: BaseException | None = None
        if fate is not Fate.FAILS:
            self._be(process)  # a step of several statements runs code of its process
            try:
                answer = operation.apply()
            except Exception as raised:
                error = raised
            if operation.uses_store:
                self._spans.ran()
            if self.steps is not None:
                self.steps[-1].operation = operation.label()
                self.steps[-1].answer = _shown(error or answer)
        if fate is Fate.DIES_AFTER:
            self._kill(process)
            return
        if error is None and (fate is Fate.FAILS or fate is Fate.UNANSWERED):
            assert operation.errors is not None
            error = operation.errors(fate)
        future = operation.future
        if future is None:
            process.observe(operation.number, self.clock)
        else:
            process.observe(operation.number, self.clock, self.seen(operation, answer, error))
            if future.done():
                pass
            elif error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
        if fate is Fate.CANCELLED_AFTER:
            self._cancel(process, fate)
        self._go_on(process)

    def _disturbed(self, operation: Operation, fate: Fate) -> None:
        """The same with a fault, or written down for people."""
        process = self.current = operation.process
        self.used = self.used.plus(fate)
        if self.steps is not None:
            self._record(process, operation.label(), fate)
        if fate is not Fate.DONE:
            process.faulted = True
        if fate is Fate.DIES_BEFORE:
            self._kill(process)
        elif fate is Fate.CANCELLED_BEFORE:
            self._cancel(process, fate)
            self._go_on(process)
        else:
            self._happens(operation, fate)

    def _cancel(self, process: Process, fate: Fate) -> None:
        """Before: at what it waits for. After: where it has waited for what is done, and before it knows."""
        process.observe(fate.value, self.clock)
        assert process.main is not None
        process.main.cancel()

    def _be(self, process: Process) -> None:
        """Whose code runs from now on."""
        if self._acting is not process.numbers:  # new in each incarnation
            self._acting = process.numbers
            self.loop.owner = process
            identity.become(process.identity, process.numbers)

    def _go_on(self, process: Process) -> None:
        """Let the process run until it waits again; see whether it has ended."""
        known = process.knowing(process.observed)
        self._be(process)
        self.loop.drain()
        if process.main is not None and process.main.done():
            self._ended(process, process.main)
        if process.pending:
            process.pending = [one for one in process.pending if not one.gone]
        if self._checks and self.watch.broken is None:
            self.went_on[known] = process.state()

    def _ended(self, process: Process, main: "asyncio.Task[Any]") -> None:
        failure = None if main.cancelled() else main.exception()
        if isinstance(failure, AssertionError) or (failure is not None and not process.faulted):
            self.watch.broken = f"{process.title} ended with {type(failure).__name__}: {failure}"
            return
        if not process.ending:
            process.ending = True
            for task in process.tasks:
                task.cancel()  # as asyncio.run does
            self.loop.drain()
        if not all(task.done() for task in process.tasks):
            return  # they tidy up first
        self._roll_back(process)
        if (failure is not None or main.cancelled()) and process.restarts:
            self._offer_start(process)

    def _kill(self, process: Process) -> None:
        """No finally, no clean-up: its connection closes, so its transaction is rolled back."""
        self._roll_back(process)
        self._graveyard += [process.tasks, process.pending, process.timers, process.main]
        process.forget()
        if process.restarts:
            self._offer_start(process)

    def _offer_start(self, process: Process) -> None:
        process.forget()

        def start() -> None:
            process.begin()
            self._be(process)
            connection = Connection(ExploredDriver(self, process))
            body: Any = process.body(connection)
            process.main = self.loop.create_task(body)

        self.submit(Operation(process, lambda: "starts", start, None, fates=SURE))

    # what processes ask for

    def submit(self, operation: Operation) -> None:
        if self.over:
            raise Over
        process = operation.process
        process.asked += 1
        operation.number = process.asked
        process.pending.append(operation)

    def hear(self, event: Event) -> None:
        """An answer of the library, told while a process runs."""
        process = self.loop.owner
        if process is None or self.over:
            return
        process.told = hash((process.told, self.watch.heard(process.title, event)))
        if self.steps:
            self.steps[-1].told.append(str(event.answer))

    def open_transaction(self, process: Process) -> None:
        self.watch.opened()
        self._transaction_of = process

    def close_transaction(self) -> None:
        self._transaction_of = None
        self.watch.closed()

    def _roll_back(self, process: Process) -> None:
        if self._transaction_of is process:
            self.ground.rollback()
            self.close_transaction()

    def _task(self, task: "asyncio.Task[Any]") -> None:
        self.loop.owner.tasks.append(task)

    def _timer(self, handle: Handle) -> None:
        if self.over:
            raise Over
        process: Process = handle.owner
        if handle.when <= self.clock:
            self._fire(process, handle)
        else:
            process.timers.append(handle)

    def _fire(self, process: Process, handle: Handle) -> None:
        """A timer that is due is an operation."""

        def apply() -> None:
            if not handle.cancelled():
                handle.run()

        self.submit(_Timer(process, handle, apply))

    # time

    def _anybody(self) -> bool:
        return any(self.enabled(process) for process in self.processes)

    def _next_timer(self) -> float | None:
        found = [when for process in self.processes if (when := process.next_timer()) is not None]
        return self._soon(min(found)) if found else None

    def _next_moment(self) -> float | None:
        """The next timer, or just after the next expiry."""
        expiries = [when + _TICK for when in (self.ground.next_expiry(), self._spans.next()) if when is not None]
        found = [when for when in (self._next_timer(), *expiries) if when is not None]
        return self._soon(min(found)) if found else None

    def _soon(self, when: float) -> float | None:
        when = ceil(round(when * 1000, 3)) / 1000
        return None if when > self.world.horizon else max(when, self.clock)

    def _set_clock(self, clock: float) -> None:
        self.clock = self.loop.clock = self.watch.clock = clock
        self.ground.set_clock(clock)
        self._spans.set_clock(clock)

    def _record(self, process: Process | None, operation: str, fate: Fate) -> None:
        assert self.steps is not None
        name, title = (process.name, process.title) if process else (None, "")
        self.steps.append(Step(self.step, name, title, operation, fate, "", self.clock, {}))


class _Timer(Operation):
    """A timer that is due; one that is cancelled meanwhile is gone."""

    __slots__ = ("_handle",)

    def __init__(self, process: Process, handle: Handle, apply: Callable[[], None]) -> None:
        super().__init__(process, lambda: "wakes up", apply, None, fates=UNSEEN)
        self._handle = handle

    @property
    def gone(self) -> bool:
        return self._handle.cancelled()


def _shown(answer: object) -> str:
    if answer is None or answer == () or answer == []:
        return ""
    return f"{type(answer).__name__}: {answer}" if isinstance(answer, BaseException) else repr(answer)
