"""How many moves each lifecycle has made, for the pages: by its history, by this process, or why that is not known."""

from dataclasses import dataclass
from typing import Any

from raceproof.declare.spec import Spec
from raceproof.kernel.statement import Program
from raceproof.ops.web.queries.rates import HOUR, MINUTE, Pace, Span, paces, tallies
from raceproof.ops.web.visit import Visit
from raceproof.store import AsyncStore

NO_HISTORY = "no history is declared, so moves are not counted"
ON_REDIS = "Redis stores a history per row, so moves are not counted"
_HERE = " in this process"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a lifecycle's moves; `why` says why nothing is."""

    pace: Pace | None
    losers: bool
    """Moves that were refused are known too."""
    why: str = ""
    where: str = ""
    """Where they were counted, if not in the history."""

    @property
    def text(self) -> str:
        """How many moves in which time, in a sentence."""
        if self.pace is None:
            return self.why
        minute, hour = self.pace.minute, self.pace.hour
        if minute.made:
            return f"{_moves(minute.made)} in {minute.words}{self.where}"
        if hour.made:
            return f"no moves in {minute.words}, {hour.made:,} in {hour.words}{self.where}"
        return f"no moves in {hour.words}{self.where}"

    @property
    def refused(self) -> str:
        """The same for those that were refused; empty if there were none, or if they are not known."""
        if self.pace is None or not self.losers:
            return ""
        found = next((one for one in (self.pace.minute, self.pace.hour) if one.refused), None)
        return f"{found.refused:,} refused in {found.words}{self.where}" if found else ""


def _moves(number: int) -> str:
    return f"{number:,} move{'s' * (number != 1)}"


async def known_of(visit: Visit) -> dict[str, Known]:
    """For each lifecycle, by its name."""
    reply = await visit.ask_shared("all", _paces, visit.catalog.histories)
    return {
        spec.name: _known(visit, spec, reply.value or {}, reply.trouble) for spec in visit.catalog.lifecycles.values()
    }


def _known(visit: Visit, spec: Spec[Any], kept: dict[str, Pace], trouble: str) -> Known:
    if spec.history and spec.name in kept:
        return Known(kept[spec.name], spec.history.losers)
    recently = visit.board.feed.recent_counts
    if any(name == spec.name for _, name, _, _ in visit.board.feed.counts):
        counted = {
            seconds: Span(
                seconds, tallies(spec.name, ((*key, number) for key, number in recently.within(seconds).items()))
            )
            for seconds in (MINUTE, HOUR)
        }
        return Known(Pace(counted[MINUTE], counted[HOUR]), losers=True, where=_HERE)
    if spec.history is None:
        return Known(None, losers=False, why=NO_HISTORY)
    return Known(None, losers=False, why=f"the history could not be read: {trouble}" if trouble else ON_REDIS)


def _paces(store: AsyncStore, histories: dict[str, list[str]]) -> Program[dict[str, Pace]]:
    found: dict[str, Pace] = {}
    if store.dialect != "redis":
        for table, names in histories.items():
            found |= yield from paces(store, table, names)
    return found
