"""P8: an event is kept and worked on once."""

from raceproof.inbox import Inbox
from raceproof.testing.explorer.promises.claims import keeps_claims
from raceproof.testing.explorer.promises.moves import keeps_moves
from raceproof.testing.explorer.promises.values import rows_of, told
from raceproof.testing.explorer.world import Moment, World


def keeps_inbox(world: World, inbox: Inbox) -> None:
    """P8: what was answered is there, and the same event is new once and worked on along its moves."""
    keys = inbox.lifecycle.key_columns

    def durable(moment: Moment) -> object:
        rows = rows_of(moment.tables, inbox.table, keys)
        new: set[str] = set()
        for title, event in told(moment, inbox, "receive"):
            if tuple(event.key) not in rows:
                return f"{title} was told {event.answer}, and it is not there"
            if event.outcome == "received" and str(event.key) in new:
                return f"{title} was told a second time that {event.key!r} is new"
            if event.outcome == "received":
                new.add(str(event.key))
        return True

    world.always(f"P8: {inbox} keeps what it has answered, once", durable)
    keeps_moves(world, inbox.lifecycle)
    keeps_claims(world, inbox.work)
