"""P10: one holder of the current epoch; writes of an older one are refused."""

from collections.abc import Mapping
from typing import Any

from raceproof.declare.spec import Claimable, Move
from raceproof.leases import Lease, LeaseGranted
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.promises.values import at_each_step, number, seconds, text
from raceproof.testing.explorer.world import Moment, World


def keeps_lease(world: World, lease: Lease, *guarded: Move[Any] | Claimable[Any]) -> None:
    """P10: a lease changes hands only when it is over, each time with a newer epoch.

    `guarded` are moves and claims that are always called with the guard of a leader: no older epoch wins one.
    """

    def terms(before: Tables, after: Tables, moment: Moment) -> object:
        old, new = _row(before, lease), _row(after, lease)
        if old is None or new is None:
            return True
        was, now = number(old.get("epoch")) or 0, number(new.get("epoch")) or 0
        until = seconds(old.get("until"))
        if now < was:
            return f"the epoch went from {was} to {now}"
        if (text(old.get("since")), text(old.get("holder"))) == (text(new.get("since")), text(new.get("holder"))):
            return True
        if now == was:
            return f"{new.get('holder')} took over in the epoch {was} of {old.get('holder')}"
        if until is not None and until > moment.clock:
            return f"{new.get('holder')} took over at {moment.clock:g} s, and {old.get('holder')} holds it until {until:g} s"
        return True

    def newest(moment: Moment) -> object:
        leads: dict[str, int] = {}
        highest, by = 0, ""
        for title, event in moment.told:
            answer: Any = event.answer
            if answer.declared == lease and isinstance(answer, LeaseGranted):
                if answer.epoch < highest:
                    return f"{title} was told {answer}, and {by} leads in epoch {highest}"
                if answer.epoch == highest and (event.outcome == "took over" or title != by):
                    return f"{title} was told {answer}, which is the epoch of {by}"
                leads[title] = highest = answer.epoch
                by = title
            elif event.settled and answer.declared in guarded and answer.won and leads.get(title, -1) < highest:
                term = f"in epoch {leads[title]}" if title in leads else "without ever leading"
                return f"{title} was told {answer} {term}, and {by or 'nobody'} leads in epoch {highest}"
        return True

    at_each_step(world, f"P10: the terms of {lease}", terms)
    world.always(f"P10: the newest epoch of {lease} alone can write", newest)


def _row(tables: Tables, lease: Lease) -> Mapping[str, Any] | None:
    """The row of a lease; on Redis it is the hash that does not say its name, since that is its key."""
    rows = tables.get(lease.table, ())
    return next((row for row in rows if row.get("name", lease.name) == lease.name), None)
