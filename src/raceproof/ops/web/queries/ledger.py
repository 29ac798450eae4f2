"""The race ledger: decisions in the order in which they were made, those who lost beside those who won."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.declare.spec import Spec
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import qualified
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import entry_of_tenant, history_start
from raceproof.moves import HistoryEntry
from raceproof.ops.web.queries.statements import literals, statement
from raceproof.store import AsyncStore

PAGE = 50
WINDOW = 2_000
WON = ("moved", "claimed", "started")
LAST = 2**62


@dataclass(frozen=True, slots=True)
class Winner:
    """The decision that stood in the way of one that lost."""

    move: str
    actor: str | None
    reason: str | None
    at: datetime
    outcome: str


@dataclass(frozen=True, slots=True)
class Decision:
    """One entry of a history, with the decision before it."""

    id: int
    lifecycle: str
    key: str
    entry: HistoryEntry
    winner: Winner | None

    @property
    def won(self) -> bool:
        return self.entry.outcome in WON


@dataclass(frozen=True, slots=True)
class Ledger:
    decisions: Sequence[Decision]
    next: int | None
    """Where the next page begins."""


def ledger(
    store: AsyncStore,
    table: str,
    lifecycles: Sequence[str],
    before: int | None = None,
    losers: bool = False,
    limit: int = PAGE,
) -> Program[Ledger]:
    """One page, newest first; `losers`: only those who lost."""
    slots = {
        "table": qualified(table),
        "names": literals(lifecycles),
        "chosen": f"w.outcome NOT IN ({literals(WON)})" if losers else "",
        "of_tenant": entry_of_tenant(store.tenant, "w"),
    }
    values: dict[str, Any] = {"before": before or LAST, "window": WINDOW, "limit": limit}
    values["tenant_text"] = history_start(store.tenant)
    rows = yield statement(store, "web.ledger", slots, values)
    found = [_decision(row) for row in rows]
    if len(found) == limit:
        return Ledger(found, found[-1].id)
    begin = (before or (yield from _last(store, table)) + 1) - WINDOW
    return Ledger(found, begin if begin > 1 else None)


def last(store: AsyncStore, table: str, lifecycles: Sequence[str]) -> Program[int]:
    """The number of the newest entry that may be seen: when it changes, something has happened."""
    if store.tenant is None:
        return (yield from _last(store, table))
    slots = {"table": qualified(table), "names": literals(lifecycles), "of_tenant": entry_of_tenant(store.tenant, "w")}
    values = {"window": WINDOW, "tenant_text": history_start(store.tenant)}
    ((found,),) = yield statement(store, "web.last_of_tenant", slots, values)
    return int(found or 0)


def _last(store: AsyncStore, table: str) -> Program[int]:
    ((found,),) = yield statement(store, "web.last", {"table": qualified(table)})
    return int(found or 0)


def why_lost(spec: Spec[Any] | None, entry: HistoryEntry) -> str:
    """The reason in words, from the declaration and the status that was found."""
    if entry.outcome == "lost":
        return "stale fence: the row had a newer one"
    if entry.outcome == "already":
        return f"already at {entry.before}"
    move = spec.moves.get(entry.move) if spec else None
    if move is None:
        return f"not allowed from {entry.before}"
    if entry.before in move.sources:
        return "a guard or the revision did not match"
    return f"it requires {' or '.join(map(str, move.sources))}, but the row was at {entry.before}"


def winners(history: Sequence[HistoryEntry]) -> Mapping[int, HistoryEntry]:
    """For each place of a loser in a history, newest first: the decision that was before it."""
    found: dict[int, HistoryEntry] = {}
    latest: HistoryEntry | None = None
    for place in range(len(history) - 1, -1, -1):
        if history[place].outcome in WON:
            latest = history[place]
        elif latest is not None:
            found[place] = latest
    return found


def _decision(row: Sequence[Any]) -> Decision:
    number, lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at, *other = row
    entry = HistoryEntry(
        move, outcome, before, after, revision, actor or None, reason or None, call or None, moment(at)
    )
    winner = None
    if other[0] is not None and outcome not in WON:
        winner = Winner(other[0], other[1] or None, other[2] or None, moment(other[3]), other[4])
    return Decision(int(number), lifecycle, key, entry, winner)
