"""P9: at most one active attempt for an owner."""

from typing import Any

from raceproof.attempts import Attempts
from raceproof.testing.explorer.promises.moves import keeps_moves
from raceproof.testing.explorer.promises.values import Row, named, rows_of, seconds, told
from raceproof.testing.explorer.world import Moment, World


def keeps_attempts(world: World, attempts: Attempts) -> None:
    """P9: one open attempt for an owner; a new one ends only an open one, and none is begun twice."""
    spec = attempts.lifecycle
    still_open = {str(status) for status in attempts.open}

    def one_open(moment: Moment) -> object:
        owners: dict[tuple[str, ...], tuple[str, ...]] = {}
        for key, row in rows_of(moment.tables, spec.table, spec.key_columns).items():
            owner = tuple(str(row.get(column)) for column in attempts.owner_columns)
            if str(row.get(spec.column)) not in still_open or not _is_fresh(attempts, row, moment.clock):
                continue
            if owner in owners:
                return f"{named(owner)} has two open attempts, {named(owners[owner])} and {named(key)}"
            owners[owner] = key
        return True

    def as_told(moment: Moment) -> object:
        begun: set[str] = set()
        rows = rows_of(moment.tables, spec.table, spec.key_columns)
        for title, event in told(moment, attempts, "start"):
            answer: Any = event.answer
            respected = event.outcome == "already active" or (event.outcome == "rejected" and answer.active is not None)
            if respected and str(answer.status) not in still_open:
                return f"{title} was told {answer}, which has ended"
            if event.outcome != "started" or answer.replayed:
                continue
            if str(answer.key) in begun:
                return f"{title} was told a second time that {answer.key!r} has begun"
            begun.add(str(answer.key))
            ended = rows.get((str(answer.superseded),))
            if ended is not None and str(ended.get(spec.column)) != str(attempts.supersede.target):
                return f"{title} was told {answer}, and that one is at {ended.get(spec.column)}"
        return True

    keeps_moves(world, spec)
    world.always(f"P9: one open attempt of {spec} for an owner", one_open)
    world.always(f"P9: {attempts} begins once, and ends an open one", as_told)


def _is_fresh(attempts: Attempts, row: Row, clock: float) -> bool:
    began = seconds(row.get(attempts.started)) if attempts.started else None
    return attempts.ttl is None or began is None or began + attempts.ttl > clock
