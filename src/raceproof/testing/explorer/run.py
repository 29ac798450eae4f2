"""One run of a scenario: the schedule says what happens next, and where it ends, the default goes on.

A choice is made only where processes can see each other: at a statement, an effect, a timer that is due, a start. Between
two of these a process runs until it waits again. A process that dies runs no `finally` and no `__aexit__`; its transaction
is rolled back, and its tasks are kept until the run is over, so that nothing of them is cleaned up in the middle.
"""

import asyncio
from asyncio import events as asyncio_events
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from raceproof import identity
from raceproof.events import Event
from raceproof.testing.explorer.action import WAIT, Action, Fate, Faults, allowed
from raceproof.testing.explorer.connection import Connection, ExploredDriver
from raceproof.testing.explorer.ground import Ground, Tables
from raceproof.testing.explorer.loop import Handle, VirtualLoop
from raceproof.testing.explorer.process import SURE, UNSEEN, Operation, Process
from raceproof.testing.explorer.world import Call, Moment, World

MOST_STEPS = 500
"""A run that is longer than this goes round in circles."""


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


@dataclass(slots=True)
class Broken:
    """What must hold did not."""

    why: str


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
        self.loop = VirtualLoop(self._timer, self._task)  # type: ignore[abstract]  # refuses what it does not have
        self.clock = 0.0
        self.step = 0
        self.used = Faults()
        self.current: Process | None = None
        self.processes = [
            Process(index, one.name, one.body, one.restarts) for index, one in enumerate(world.processes)
        ]
        self.told: list[tuple[str, Event]] = []
        self.steps: list[Step] | None = [] if record else None
        self.broken: Broken | None = None
        self.last: tuple[str, str, Fate] = ("", "", Fate.DONE)
        self._effects: list[Call] = []
        self._effects_hash = 0
        self._told_hash = 0
        self.told_matters = False
        """Whether an invariant looks at the order of the answers, so that it tells states apart."""
        self._graveyard: list[Any] = []
        self._transaction_of: Process | None = None
        self._committed: Tables = {}
        self._version: object = None
        self._tables: Tables | None = None
        self._state: object = None
        self._checked: object = None
        self._over = False
        self._moment = Moment(self)

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
        self._over = True
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
            return (self._next_moment() if self._anybody() else self._next_timer()) is not None
        ready = self.enabled(self.processes[action.process])
        return action.place < len(ready) and action.fate in ready[action.place].fates

    def key(self) -> object:
        """The state: two runs with the same one go on alike."""
        self._look()
        current = self.current
        owner = self._transaction_of
        return (
            self._state,
            self.clock,
            self.ground.expiries(),
            self._effects_hash,
            self._told_hash if self.told_matters else 0,
            current.index if current else -1,
            owner.index if owner else -1,
            tuple([process.state() for process in self.processes]),
        )

    # what happens

    def take(self, action: Action, check: bool = True) -> None:
        """One step."""
        self.step += 1
        before = self.tables() if check and self.world.changes else None
        if action == WAIT:
            self._wait()
        else:
            process = self.processes[action.process]
            operation = self.enabled(process)[action.place]
            self._perform(operation, action.fate)
        if self.steps is not None:
            self.steps[-1].tables = self.tables()
        if check and self.broken is None:
            self._check(before)

    def _wait(self) -> None:
        target = self._next_moment() if self._anybody() else self._next_timer()
        assert target is not None
        began = self.clock
        self._set_clock(target)
        if self.steps is not None:
            self._record(None, "", f"{target - began:g} s pass", Fate.DONE)
        for process in self.processes:
            for handle in process.fire_timers(self.clock):
                self._fire(process, handle)

    def _perform(self, operation: Operation, fate: Fate) -> None:
        process = operation.process
        self.current = process
        self.used = self.used.plus(fate)
        if self.steps is not None or fate is not Fate.DONE:
            label = operation.label()
            self.last = (process.name, label, fate)
            if self.steps is not None:
                self._record(process, process.title, label, fate)
        if fate is not Fate.DONE:
            process.faulted = True
        match fate:
            case Fate.DIES_BEFORE:
                self._kill(process)
                return
            case Fate.CANCELLED_BEFORE:
                process.observe("cancelled")
                assert process.main is not None
                process.main.cancel()
                self._go_on(process)
                return
        process.pending.remove(operation)
        answer: object = None
        error: BaseException | None = None
        if fate is not Fate.FAILS:
            try:
                answer = operation.apply()
            except Exception as raised:
                error = raised
            if self.steps is not None:
                self.steps[-1].operation = operation.label()
                self.steps[-1].answer = _shown(error or answer)
        if fate is Fate.DIES_AFTER:
            self._kill(process)
            return
        if fate in (Fate.FAILS, Fate.UNANSWERED) and error is None:
            assert operation.errors is not None
            error = operation.errors(fate)
        future = operation.future
        if future is not None:
            seen = self.ground.observed if operation.uses_store else repr
            process.observe((fate, self.clock, repr(error) if error else seen(answer)))
            if not future.done():
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)
        if fate is Fate.CANCELLED_AFTER:
            assert process.main is not None
            process.main.cancel()
        self._go_on(process)

    def _go_on(self, process: Process) -> None:
        """Let the process run until it waits again; see whether it has ended."""
        identity.become(f"{process.name}.{process.incarnation}", process.numbers)
        self.loop.drain(process)
        if process.pending:
            process.pending = [one for one in process.pending if not one.gone]
        main = process.main
        if main is not None and main.done():
            self._ended(process, main)

    def _ended(self, process: Process, main: "asyncio.Task[Any]") -> None:
        left = [task for task in process.tasks if not task.done()]
        if left and not any(task.cancelling() for task in left):
            for task in left:
                task.cancel()  # as asyncio.run does
            self.loop.drain(process)
        if all(task.done() for task in process.tasks):
            self._roll_back(process)
        failure = None if main.cancelled() else main.exception()
        if isinstance(failure, AssertionError) or (failure is not None and not process.faulted):
            self.broken = Broken(f"{process.title} ended with {type(failure).__name__}: {failure}")
        elif (failure is not None or main.cancelled()) and process.restarts:
            self._graveyard.append(process.tasks)
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
            connection = Connection(ExploredDriver(self, process))
            body: Any = process.body(connection)
            self.loop.owner = process
            process.main = self.loop.create_task(body)

        process.pending = [Operation(process, lambda: "starts", start, None, fates=SURE)]

    # what processes ask for

    def submit(self, operation: Operation) -> None:
        if self._over:
            raise Over
        operation.process.pending.append(operation)

    def happened(self, call: Call) -> None:
        self._effects.append(call)
        details = tuple(sorted((name, repr(value)) for name, value in call.details.items()))
        self._effects_hash = hash((self._effects_hash, call.effect, call.key, details, call.by))
        self._checked = None

    def calls(self, effect: str) -> Sequence[Call]:
        return [call for call in self._effects if call.effect == effect]

    def hear(self, event: Event) -> None:
        """An answer of the library, told while a process runs."""
        process = self.loop.owner
        if process is None or self._over:
            return
        self.told.append((process.title, event))
        what = hash((process.title, event.operation, event.outcome, repr(event.key)))
        process.told = hash((process.told, what))
        self._told_hash = hash((self._told_hash, what))
        self._checked = None
        if self.steps:
            self.steps[-1].told.append(str(event.answer))

    def open_transaction(self, process: Process) -> None:
        self._committed = self.tables()
        self._transaction_of = process

    def close_transaction(self) -> None:
        self._transaction_of = None
        self._version = self._tables = None

    def _roll_back(self, process: Process) -> None:
        if self._transaction_of is process:
            self.ground.rollback()
            self.close_transaction()

    def _task(self, task: "asyncio.Task[Any]") -> None:
        self.loop.owner.tasks.append(task)

    def _timer(self, handle: Handle) -> None:
        if self._over:
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
                process.observe(("timer", self.clock))
                handle.run()

        process.pending.append(_Timer(process, handle, apply))

    # time

    def _anybody(self) -> bool:
        return any(self.enabled(process) for process in self.processes)

    def _next_timer(self) -> float | None:
        found = [when for process in self.processes if (when := process.next_timer()) is not None]
        return self._soon(min(found)) if found else None

    def _next_moment(self) -> float | None:
        """The next timer or expiry."""
        found = [when for when in (self._next_timer(), self.ground.next_expiry()) if when is not None]
        return self._soon(min(found)) if found else None

    def _soon(self, when: float) -> float | None:
        when = ceil(round(when * 1000, 3)) / 1000
        return None if when > self.world.horizon else max(when, self.clock)

    def _set_clock(self, clock: float) -> None:
        self.clock = self.loop.clock = clock
        self.ground.set_clock(clock)

    # what must hold

    def tables(self) -> Tables:
        """All rows that are committed; what stands in an open transaction is seen by nobody."""
        if self._transaction_of is not None:
            return self._committed
        version = self.ground.version()
        if self._tables is None or version != self._version:
            self._version = version
            self._tables = self.ground.tables()
            self._state = None
        return self._tables

    def _look(self) -> None:
        version = self.ground.version()
        if version != self._version:
            self._version, self._tables, self._state = version, None, None
        if self._state is None:
            self._state = self.ground.state()

    def _check(self, before: Tables | None) -> None:
        """The invariants, if anything has changed that they could see."""
        changed = "open" if self._transaction_of is not None else self.ground.version()
        if changed == self._checked:
            return
        self._checked = changed
        for invariant in self.world.always_hold:
            if (why := invariant.broken(self._moment)) is not None:
                self.broken = Broken(why)
                return
        if before is not None:
            after = self.tables()
            for invariant in self.world.changes:
                if (why := invariant.broken(before, after)) is not None:
                    self.broken = Broken(why)
                    return

    def check_end(self) -> None:
        for invariant in self.world.hold_at_the_end:
            if (why := invariant.broken(self._moment)) is not None:
                self.broken = Broken(f"in the end not so: {why}")
                return

    def seen(self, invariant: Any) -> bool:
        """Whether something that must be reached is reached now."""
        return invariant.broken(self._moment) is None

    def _record(self, process: Process | None, title: str, operation: str, fate: Fate) -> None:
        assert self.steps is not None
        self.steps.append(
            Step(self.step, process.name if process else None, title, operation, fate, "", self.clock, {})
        )


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
