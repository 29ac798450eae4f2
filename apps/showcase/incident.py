"""One press of a button: what it did, and what came of it on each side."""

from dataclasses import dataclass, field

from showcase.twins.scenario import RACEPROOF, SIDES
from showcase.twins.score import Scores


@dataclass
class Incident:
    """One press of a button, and what came of it."""

    number: int
    name: str
    title: str
    about: tuple[str, ...]
    """The scenarios that it is about."""
    state: str = "waiting"
    did: list[str] = field(default_factory=list)
    apps: list[str] = field(default_factory=list)
    """What it did to the applications."""
    came: dict[str, str] = field(default_factory=dict)
    """What came of it, by side."""
    before: Scores = field(default_factory=dict)

    def compare(self, now: Scores) -> None:
        """What went wrong since it began, in words."""
        for side in SIDES:
            wrong = []
            held_off = 0
            for name in self.about:
                then, here = self.before[name][side], now[name][side]
                wrong += [
                    f"{number - then.wrong[label]} {label}"
                    for label, number in here.wrong.items()
                    if number > then.wrong[label]
                ]
                held_off += here.held_off - then.held_off
            self.came[side] = ", ".join(wrong) or "nothing went wrong"
            if side == RACEPROOF and held_off:
                self.came[side] += f"; {held_off} held off"
