"""Random schedules with few changes of priority (PCT): what is tried when the time is not enough for all of them."""

import random

from raceproof.testing.explorer.action import WAIT, Action, Fate
from raceproof.testing.explorer.run import MOST_STEPS, Run

_LENGTH = 60
"""Changes of priority and faults fall into the first so many steps."""
_FAULTS = 0.6
"""How often a change is a fault, and not only another order."""


def random_run(run: Run, chance: random.Random, deviations: int) -> list[Action]:
    """Priorities for the processes, a few changes of them, and the faults anywhere; returns what was done."""
    order = list(range(len(run.processes)))
    chance.shuffle(order)
    changes = {chance.randrange(_LENGTH) for _ in range(deviations)}
    taken: list[Action] = []
    while run.broken is None:
        action = run.default()
        if run.step >= MOST_STEPS:
            break  # the order of priorities can keep somebody waiting for ever
        if action is None:
            run.watch.check_end()
            break
        if action != WAIT:
            if run.step in changes:
                order.append(order.pop(0))
            action = _by_priority(run, order, chance, action if run.step in changes else None) or action
        taken.append(action)
        run.take(action)
    return taken


def _by_priority(run: Run, order: list[int], chance: random.Random, disturb: Action | None) -> Action | None:
    if disturb is not None and chance.random() < _FAULTS:
        faults = [one for _, one in run.alternatives(disturb) if one == WAIT or one.fate is not Fate.DONE]
        if faults:
            return chance.choice(faults)
    for index in order:
        if run.enabled(run.processes[index]):
            return Action(index)
    return None
