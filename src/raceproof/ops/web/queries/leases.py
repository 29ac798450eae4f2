"""Leases and their holders. The store keeps no past epochs; `Watch` remembers those seen in this process."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from raceproof.kernel.moment import moment
from raceproof.kernel.statement import Program
from raceproof.leases import Lease
from raceproof.leases.request import LeaseRequest
from raceproof.ops.inspect import programs_of
from raceproof.store import AsyncStore

_KEPT = 200
_EPOCH_IS_A_TIME = 10**15  # an epoch is at least the store's clock in microseconds


@dataclass(frozen=True, slots=True)
class Leader:
    """A lease as it is now."""

    name: str
    table: str
    holder: str | None
    """None without a leader."""
    epoch: int
    until: datetime | None
    since: datetime | None
    last: str | None = None
    """The last holder, if there is none now."""


@dataclass(slots=True)
class Band:
    """One epoch of one holder: from when it began to when it was seen last, or to the end of its lease."""

    lease: str
    holder: str
    epoch: int
    begin: datetime
    end: datetime


def leaders(store: AsyncStore, declared: Iterable[Lease]) -> Program[list[Leader]]:
    """All leases of the tables of the declared ones; on Redis the declared ones."""
    found: dict[tuple[str, str], Leader] = {}
    programs = programs_of(store).leases
    wanted = list(declared)
    if store.dialect != "redis":
        for lease in {one.table: one for one in wanted}.values():
            for name, holder, epoch, until, held, since in (yield from programs.listed(LeaseRequest(lease))):
                ends = None if until is None else moment(until)
                found[lease.table, name] = Leader(
                    name, lease.table, holder if held else None, int(epoch), ends, moment(since), holder
                )
    for lease in wanted:
        if (lease.table, lease.name) not in found:
            led = yield from programs.holder(LeaseRequest(lease))
            since = datetime.fromtimestamp(led.epoch / 1e6, UTC) if led.epoch > _EPOCH_IS_A_TIME else None
            found[lease.table, lease.name] = Leader(
                lease.name, lease.table, led.by, led.epoch, led.until, since, led.by
            )
    return sorted(found.values(), key=lambda one: one.name)


class Watch:
    """The epochs that were seen, newest last, at most so many."""

    def __init__(self) -> None:
        self._bands: deque[Band] = deque(maxlen=_KEPT)

    def see(self, leaders: Iterable[Leader], now: datetime) -> None:
        """Remember what a look has found."""
        for one in leaders:
            if one.holder is not None:
                self.note(one.name, one.holder, one.epoch, one.since or now, now)

    def note(self, lease: str, holder: str, epoch: int, begin: datetime, end: datetime) -> None:
        for band in reversed(self._bands):
            if (band.lease, band.holder, band.epoch) == (lease, holder, epoch):
                band.end = max(band.end, end)
                return
        self._bands.append(Band(lease, holder, epoch, begin, end))

    def bands(self, lease: str, span: timedelta, now: datetime) -> list[Band]:
        """Those of a lease that reach into the last while."""
        return [band for band in self._bands if band.lease == lease and band.end >= now - span]
