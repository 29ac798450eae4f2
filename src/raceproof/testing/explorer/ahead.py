"""Where a step leads, without going there: what it does to the store is done in passing and undone.

The code of a process that runs after its step depends on what the process has observed and on nothing else. So where it
went on from the same observations before, in whatever run, the state after the step is known; and a schedule that ends in
a known state need not be run from its beginning to find out.
"""

from collections.abc import Mapping
from typing import NamedTuple

from raceproof.testing.explorer.action import WAIT, Action, Fate
from raceproof.testing.explorer.process import Knowing, Operation, State
from raceproof.testing.explorer.run import Run

_UNDONE = frozenset((Fate.DIES_BEFORE, Fate.FAILS, Fate.CANCELLED_BEFORE))
"""Nothing happens to the store."""
_DEAD = frozenset((Fate.DIES_BEFORE, Fate.DIES_AFTER))


class Foreseen(NamedTuple):
    """The state after a step, but for how the code of its process goes on."""

    outside: object
    process: int
    states: tuple[State, ...]
    """Of all processes; that of this one if it is dead."""
    knows: Knowing | None
    """What decides how its code goes on; None if it is dead."""

    def key(self, went_on: Mapping[Knowing, State], told_matters: bool) -> object | None:
        """The state as `Run.key` tells it; None as long as nobody has seen how the code goes on."""
        states = self.states
        if self.knows is not None:
            after = went_on.get(self.knows)
            told = self.knows[3]
            if after is None or (told_matters and after[2] != told):
                return None
            states = (*states[: self.process], after, *states[self.process + 1 :])
        return self.outside, self.process, -1, states


class _Trial(NamedTuple):
    """What an operation would do now."""

    outside: object
    observed: int
    """What its process knows by then, before it knows the answer."""
    answer: object
    error: Exception | None


class Ahead:
    """What can be said of the steps that are possible now."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._outside = run.outside()
        self._states = tuple([process.state() for process in run.processes])
        self._trials: dict[Operation, _Trial | None] = {}

    def of(self, action: Action) -> Foreseen | None:
        """Where this step leads; None where it cannot be undone."""
        run, fate = self._run, action.fate
        if action == WAIT or run.in_transaction:
            return None
        operation = run.operation(action)
        trial = None if fate in _UNDONE else self._trial(operation)
        if trial is None and fate not in _UNDONE:
            return None
        outside = self._outside if trial is None else trial.outside
        process, states = operation.process, self._states
        if fate in _DEAD:
            index = process.index
            states = (*states[:index], process.dead_state(), *states[index + 1 :])
            return Foreseen(outside, index, states, None)
        return Foreseen(outside, process.index, states, process.knowing(self._observed(operation, fate, trial)))

    def _observed(self, operation: Operation, fate: Fate, trial: _Trial | None) -> int:
        run, process = self._run, operation.process
        if fate is Fate.CANCELLED_BEFORE:
            return process.observing(fate.value, run.clock)
        error: BaseException | None = None if trial is None else trial.error
        if error is None and (fate is Fate.FAILS or fate is Fate.UNANSWERED):
            assert operation.errors is not None
            error = operation.errors(fate)
        seen = run.seen(operation, None if trial is None else trial.answer, error)
        before = None if trial is None else trial.observed
        observed = process.observing(operation.number, run.clock, seen, after=before)
        if fate is Fate.CANCELLED_AFTER:
            return process.observing(fate.value, run.clock, after=observed)
        return observed

    def _trial(self, operation: Operation) -> _Trial | None:
        if operation not in self._trials:
            self._trials[operation] = self._try(operation)
        return self._trials[operation]

    def _try(self, operation: Operation) -> _Trial | None:
        run, process, trial = self._run, operation.process, operation.trial
        if trial is None:
            return None
        observed = process.observed

        def tried() -> _Trial:
            answer: object = None
            error: Exception | None = None
            try:
                answer = trial()
            except Exception as raised:
                error = raised
            return _Trial(run.outside(), process.observed, answer, error)

        try:
            return run.aside(tried)
        finally:
            process.observed = observed
