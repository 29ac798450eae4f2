"""How many moves were made and refused in a time that is named. Promise: numbers are counted, never extrapolated.

A history is read backwards by its primary key, up to a bound. Where the bound ends before the time does, the time that is
named is the shorter one that was really looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import qualified
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import entry_of_tenant, history_start
from raceproof.ops.web.filters import span
from raceproof.ops.web.queries.statements import literals, statement
from raceproof.store import AsyncStore

MINUTE = 60.0
HOUR = 3600.0
LOOKED_AT = 10_000
_SHORTEST = 0.001
_NAMED = {MINUTE: "the last minute", HOUR: "the last hour"}


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of one move."""

    made: int = 0
    refused: int = 0
    already: int = 0

    def plus(self, outcome: str, number: int) -> "Tally":
        return Tally(
            self.made + number * (outcome == "moved"),
            self.refused + number * (outcome in ("refused", "lost")),
            self.already + number * (outcome == "already"),
        )


@dataclass(frozen=True, slots=True)
class Span:
    """The moves of a lifecycle in the last so many seconds."""

    seconds: float
    moves: Mapping[str, Tally]

    @property
    def made(self) -> int:
        return sum(one.made for one in self.moves.values())

    @property
    def refused(self) -> int:
        return sum(one.refused for one in self.moves.values())

    @property
    def words(self) -> str:
        """The time in words, as `the last minute`."""
        return _NAMED.get(self.seconds) or f"the last {span(self.seconds)}"


@dataclass(frozen=True, slots=True)
class Pace:
    """The moves of a lifecycle in the last minute and in the last hour."""

    minute: Span
    hour: Span


def paces(
    store: AsyncStore, table: str, lifecycles: Sequence[str], now: datetime | None = None
) -> Program[dict[str, Pace]]:
    """The pace of each lifecycle, from its history; `now` is for tests, otherwise it is the store's time."""
    if now is None:
        ((clock,),) = yield statement(store, "web.clock", {})
        now = moment(clock)
    slots = {"table": qualified(table), "names": literals(lifecycles), "of_tenant": entry_of_tenant(store.tenant, "w")}
    reach = yield statement(store, "web.reach", slots, {"window": LOOKED_AT - 1})
    covered = max((now - moment(reach[0][0])).total_seconds(), _SHORTEST) if reach else HOUR
    minute, hour = min(MINUTE, covered), min(HOUR, covered)
    values: dict[str, Any] = {
        "window": LOOKED_AT,
        "minute": now - timedelta(seconds=minute),
        "hour": now - timedelta(seconds=hour),
        "tenant_text": history_start(store.tenant),
    }
    rows = yield statement(store, "web.paces", slots, values)
    last_minute = [(lifecycle, move, outcome, number) for lifecycle, move, outcome, number, _ in rows]
    last_hour = [(lifecycle, move, outcome, number) for lifecycle, move, outcome, _, number in rows]
    return {
        name: Pace(Span(minute, tallies(name, last_minute)), Span(hour, tallies(name, last_hour)))
        for name in lifecycles
    }


def tallies(lifecycle: str, rows: Iterable[Sequence[Any]]) -> dict[str, Tally]:
    """What became of each move of a lifecycle, from rows of lifecycle, move, outcome and number."""
    found: dict[str, Tally] = {}
    for name, move, outcome, number in rows:
        if name == lifecycle:
            found[str(move)] = found.get(str(move), Tally()).plus(str(outcome), int(number))
    return found
