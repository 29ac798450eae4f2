"""P1, P2, P12: rows move as declared, once; a call asked again does nothing twice."""

from typing import Any

from raceproof.declare.lifecycle import spec_of
from raceproof.declare.spec import Spec
from raceproof.declare.statuses import text_of_status
from raceproof.kernel.quoting import split_qualified
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.promises.values import Declared, named, rows_of, text, told
from raceproof.testing.explorer.world import Moment, World


def keeps_moves(world: World, declared: Declared) -> None:
    """P1 and P2: rows go along declared moves only, out of no terminal status, and a move is won once."""
    spec = spec_of(declared)
    pairs = {(str(source), str(move.target)) for move in spec.moves.values() for source in move.sources}
    terminal = {str(status) for status in spec.terminal}

    def along(before: Tables, after: Tables) -> object:
        old = rows_of(before, spec.table, spec.key_columns)
        for key, row in rows_of(after, spec.table, spec.key_columns).items():
            now = str(row.get(spec.column))
            was = str(old[key].get(spec.column)) if key in old else None
            if was is None and now not in map(str, spec.initial):
                return f"{named(key)} began at {now}"
            if was in terminal and now != was:
                return f"{named(key)} left the terminal status {was} for {now}"
            if was is not None and was != now and (was, now) not in pairs:
                return f"{named(key)} went from {was} to {now}, and no move does"
        return True

    def once(moment: Moment) -> object:
        won: set[tuple[str, str]] = set()
        for title, event in told(moment, spec, "move"):
            answer: Any = event.answer
            if event.outcome == "refused" and not answer.unmet:
                status = text_of_status(answer.status)
                if status in answer.declared.sources:
                    return f"{title} was refused {answer.declared} at {status}, from where it leads"
            if event.outcome != "moved" or answer.replayed:
                continue
            target = str(answer.declared.target)
            if spec.revision is not None:
                change = f"{target} at revision {answer.revision}"
            elif target not in _reachable(spec, target):
                change = target
            else:
                continue  # it may well be won again, and nothing tells one time from the next
            if (str(event.key), change) in won:
                return f"{title} was told a second time that {event.key!r} has moved to {change}"
            won.add((str(event.key), change))
        return True

    world.change(f"P1, P2: {spec} moves as declared", along)
    world.always(f"P1: a move of {spec} is won once", once)


def _reachable(spec: Spec[Any], status: str) -> set[str]:
    """Where a row can get to from a status."""
    found: set[str] = set()
    open_ends = [status]
    while open_ends:
        at = open_ends.pop()
        for move in spec.moves.values():
            if at in map(str, move.sources) and str(move.target) not in found:
                found.add(str(move.target))
                open_ends.append(str(move.target))
    return found


def keeps_calls(world: World, declared: Declared) -> None:
    """P12: a call with an id moves a row once, however often it is asked again; for stores with a history table."""
    spec = spec_of(declared)
    assert spec.history is not None, f"{spec} keeps no history"
    table = split_qualified(spec.history.table)[-1]

    def once(moment: Moment) -> object:
        seen: set[tuple[Any, Any, Any]] = set()
        for row in moment.rows(table):
            call = (row.get("key"), row.get("move"), text(row.get("call")))
            if row.get("outcome") == "moved" and row.get("lifecycle") == spec.name and call[2] is not None:
                if call in seen:
                    return f"the call {call[2]} moved {call[0]!r} twice"
                seen.add(call)
        return True

    world.always(f"P12: one call of {spec}, one move", once)
