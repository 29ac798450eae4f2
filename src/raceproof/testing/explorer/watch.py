"""What can be seen of a run from outside, step by step, and whether it is as it must be."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from raceproof.kernel.events import Event
from raceproof.testing.explorer.ground import Ground, Tables
from raceproof.testing.explorer.world import Call, Invariant, Moment, World

T = TypeVar("T")


class Watch:
    """The rows, the effects and the answers of a run; and what must hold."""

    def __init__(self, world: World, ground: Ground) -> None:
        self._world = world
        self._ground = ground
        self._moment = Moment(self)
        self._effects: list[Call] = []
        self._told_hash = 0
        self._version: object = None
        self._tables: Tables | None = None
        self._state: object = None
        self._committed: Tables | None = None
        self._checked: object = None
        self.clock = 0.0
        self.told: list[tuple[str, Event]] = []
        self.effects_hash = 0
        self.told_matters = False
        """Whether an invariant looks at the answers, so that their order tells states apart."""
        self.broken: str | None = None
        """What must hold and did not."""

    # what happens

    def happened(self, call: Call) -> None:
        """An effect."""
        self._effects.append(call)
        details = tuple(sorted((name, repr(value)) for name, value in call.details.items()))
        self.effects_hash = hash((self.effects_hash, call.effect, repr(call.key), details, call.by))
        self._checked = None

    def heard(self, who: str, event: Event) -> int:
        """An answer of the library; returns what stands for it."""
        self.told.append((who, event))
        what = hash((who, event.operation, event.outcome, repr(event.key)))
        self._told_hash = hash((self._told_hash, what))
        self._checked = None
        return what

    def opened(self) -> None:
        """From now on somebody writes what nobody else can see."""
        self._committed = self.tables()

    def closed(self) -> None:
        self._committed = self._version = self._tables = None

    def aside(self, look: Callable[[], T]) -> T:
        """What happens in this look has not happened."""
        effects, effects_hash, checked = len(self._effects), self.effects_hash, self._checked
        seen = self._version, self._tables, self._state
        try:
            return look()
        finally:
            del self._effects[effects:]
            self.effects_hash, self._checked = effects_hash, checked
            self._version, self._tables, self._state = seen

    # what is seen

    def calls(self, effect: str) -> Sequence[Call]:
        """How often an effect has happened, in order."""
        return [call for call in self._effects if call.effect == effect]

    def tables(self) -> Tables:
        """All rows that are committed; what stands in an open transaction is seen by nobody."""
        if self._committed is not None:
            return self._committed
        self._look()
        if self._tables is None:
            self._tables = self._ground.tables()
        return self._tables

    def state(self) -> object:
        """All of it as one value, to tell one state from another."""
        self._look()
        if self._state is None:
            self._state = self._ground.state()
        return self._state, self.effects_hash, self._told_hash if self.told_matters else 0

    def _look(self) -> None:
        version = self._ground.version()
        if version != self._version:
            self._version, self._tables, self._state = version, None, None

    # what must hold

    def before(self) -> Tables | None:
        """The rows before a step, if an invariant wants to compare."""
        return self.tables() if self._world.changes else None

    def check(self, before: Tables | None) -> None:
        """The invariants, if anything has changed that they could see."""
        changed = self.clock, self._committed is not None or self._ground.version()
        if changed == self._checked:
            return
        self._checked = changed
        for invariant in self._world.always_hold:
            self._judge(invariant.broken(self._moment))
        if before is not None:
            for invariant in self._world.changes:
                self._judge(invariant.broken(before, self.tables()))

    def check_end(self) -> None:
        """What must hold when everything has come to its end."""
        for invariant in self._world.hold_at_the_end:
            why = invariant.broken(self._moment)
            self._judge(None if why is None else f"in the end not so: {why}")

    def reaches(self, invariant: Invariant) -> bool:
        """Whether something that must be reached in some run is so now."""
        return invariant.broken(self._moment) is None

    def _judge(self, why: str | None) -> None:
        if self.broken is None:
            self.broken = why
