"""P3–P6, P13: one holder at a time, late writers are refused, what belongs together is written once, nothing stays stuck."""

from collections.abc import Callable, Sequence
from typing import Any

from raceproof.declare.claim_forms import ClaimColumns, TextMarker, TimestampClaim
from raceproof.declare.lifecycle import spec_of
from raceproof.declare.spec import Claimable
from raceproof.kernel.events import Event
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.promises.values import (
    Declared,
    Row,
    at_each_step,
    named,
    order,
    rows_of,
    seconds,
    text,
    told,
)
from raceproof.testing.explorer.world import Moment, World


def keeps_claims(world: World, claim: Claimable[Any]) -> None:
    """P3: no row is taken from a holder before its lease is over. P4, P5: only the newest fence can write."""
    spec = claim.lifecycle

    def alone(before: Tables, after: Tables, moment: Moment) -> object:
        old = rows_of(before, spec.table, spec.key_columns)
        for key, row in rows_of(after, spec.table, spec.key_columns).items():
            if key not in old or not _claimed_anew(claim, old[key], row, moment):
                continue
            until = _held_until(claim, old[key])
            if until is not None and until > moment.clock:
                return f"{named(key)} was claimed at {moment.clock:g} s, and its holder has it until {until:g} s"
        return True

    def growing(before: Tables, after: Tables) -> object:
        column = claim.form.fence_column
        old = rows_of(before, spec.table, spec.key_columns)
        for key, row in rows_of(after, spec.table, spec.key_columns).items():
            was = text(old[key].get(column)) if key in old else None
            if was is not None and _shrinks(claim, was, text(row.get(column))):
                return f"the fence of {named(key)} went from {was} to {row.get(column)}"
        return True

    def own(moment: Moment) -> object:
        taking = list(told(moment, claim, "claim"))
        seen: set[tuple[str, Any]] = set()
        for _, event in taking:
            if event.outcome == "claimed" and (fence := (str(event.key), fence_told(event))) in seen:
                return f"two claims of {event.key!r} have the fence {fence[1]}"
            elif event.outcome == "claimed":
                seen.add(fence)
        return late_writers(moment, claim, ("claim", "renew"), ("renew", "release", "fail", "move"), _plain(claim))

    at_each_step(world, f"P3: one holder for {claim}", alone)
    world.change(f"P4: the fence of {claim} grows", growing)
    world.always(f"P4, P5: the newest holder of {claim} alone can write", own)


def _plain(claim: Claimable[Any]) -> Callable[[Any], Any] | None:
    """How the fences of a claim are compared; None: only for being the same, so what counts is who was told last."""
    return order if isinstance(claim.form, ClaimColumns) else None


def _claimed_anew(claim: Claimable[Any], before: Row, after: Row, moment: Moment) -> bool:
    """Whether somebody has claimed the row in this step; a renewal, which only some forms can tell, does not count."""
    column = claim.form.fence_column
    fence = text(after.get(column))
    if fence is None or fence == text(before.get(column)):
        return False
    if isinstance(claim.form, ClaimColumns):
        return text(after.get(claim.form.holder)) is not None
    return any(
        event.outcome == "claimed" and text(fence_told(event)) == fence for _, event in told(moment, claim, "claim")
    )


def _held_until(claim: Claimable[Any], row: Row) -> float | None:
    """When the holder's lease is over; None: nobody holds the row."""
    match claim.form:
        case ClaimColumns(holder=holder, until=until):
            return seconds(row.get(until)) if text(row.get(holder)) is not None else None
        case TimestampClaim(column=column):
            since = seconds(row.get(column))
        case TextMarker(column=column):
            marker = text(row.get(column)) or ""
            since = seconds(float(marker.rpartition(":")[2])) if marker.startswith(claim.form.prefix) else None
    return None if since is None else since + claim.lease


def _shrinks(claim: Claimable[Any], was: str, now: str | None) -> bool:
    """Whether a fence went down; only a number of its own outlives its claim."""
    return isinstance(claim.form, ClaimColumns) and (now is None or order(now) < order(was))


def fence_told(event: Event) -> Any:
    answer: Any = event.answer
    return answer.fence


def late_writers(
    moment: Moment, declared: Any, taking: Sequence[str], writing: Sequence[str], compared: Callable[[Any], Any] | None
) -> object:
    """P4, P5: who holds a row in an older turn than the newest that was given out is never told that it has won."""
    newest: dict[str, tuple[Any, str]] = {}
    mine: dict[tuple[str, str], tuple[Any, str | None]] = {}
    for place, (title, event) in enumerate(moment.told):
        answer: Any = event.answer
        if not event.settled or declared.lifecycle is not getattr(answer.declared, "lifecycle", None):
            continue
        key = str(event.key)
        holds = mine.get((title, key))
        if event.operation in writing and answer.won and holds is not None and event.by == holds[1]:
            fence, winner = newest[key]
            if fence > holds[0] and winner != title and not _is_replayed(answer):
                return f"{title} was told {answer}, and {winner} had {event.key!r} since"
        fence = getattr(answer, "fence", None)
        if event.operation in (*taking, "mark") and answer.won and fence is not None:
            reached = place if compared is None else compared(fence)
            mine[title, key] = (reached, event.by)
            if key not in newest or newest[key][0] < reached:
                newest[key] = (reached, title)
    return True


def _is_replayed(answer: Any) -> bool:
    return bool(getattr(answer, "replayed", False))


def writes_once(world: World, declared: Declared, status: str, table: str, column: str) -> None:
    """P6: for each row at `status`, and for no other, the table has exactly one entry that names it in `column`."""
    spec = spec_of(declared)

    def once(moment: Moment) -> object:
        written = [str(text(row.get(column))) for row in moment.rows(table)]
        for key, row in rows_of(moment.tables, spec.table, spec.key_columns).items():
            expected = int(str(row.get(spec.column)) == status)
            if written.count(key[-1]) != expected:
                return f"{named(key)} is at {row.get(spec.column)}, and {table} names it {written.count(key[-1])} times"
        return True

    world.always(f"P6: {table} is written with {spec} {status}, once", once)


def recovers(world: World, claim: Claimable[Any]) -> None:
    """P13: in the end no row is claimed or waiting; for scenarios whose processes work until nothing is left."""
    spec = claim.lifecycle

    def nothing_left(moment: Moment) -> object:
        for key, row in rows_of(moment.tables, spec.table, spec.key_columns).items():
            if str(row.get(spec.column)) in map(str, claim.open):
                return f"{named(key)} is still at {row.get(spec.column)}"
        return True

    world.eventually(f"P13: all of {claim} is done", nothing_left)
