"""One call about a lease: checked before the store hears of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.kernel.arguments import check_texts
from raceproof.kernel.errors import CallError
from raceproof.kernel.identity import default_actor
from raceproof.leases.answers import LeaseGranted
from raceproof.leases.declared import Lease


@dataclass(slots=True)
class LeaseRequest:
    """Which lease, for whom, and, for a holder, in which epoch."""

    lease: Lease
    by: str = ""
    epoch: int = 0
    now: datetime | None = None
    session: bool = False
    """The holder has the advisory lock of its session."""
    locked: bool = False
    """The caller has just got the advisory lock, so the session of the last holder is gone."""

    def values(self) -> dict[str, Any]:
        return {
            "name": self.lease.name,
            "lease": self.lease.seconds,
            "by": self.by,
            "epoch": self.epoch,
            "now": self.now,
            "session": self.session,
            "locked": self.locked,
        }


def lease_request(
    lease: Lease, by: str | None, now: datetime | None, session: bool = False, locked: bool = False
) -> LeaseRequest:
    """A call of a process that does not hold the lease."""
    if not isinstance(lease, Lease):
        raise CallError(f"expected a lease, as in Lease(name), got {lease!r}")
    check_texts(lease, (by,))
    return LeaseRequest(lease, by or default_actor(), now=now, session=session, locked=locked)


def holder_request(held: LeaseGranted, now: datetime | None = None, session: bool = False) -> LeaseRequest:
    """A call of the holder.

    P10: every other answer carries the epoch of another process; a caller that did not look at its answer must not write
    in that epoch.
    """
    if not isinstance(held, LeaseGranted):
        raise CallError(
            f"the caller does not hold this lease: {held}. Check the answer of acquire_lease first: "
            "`if isinstance(answer, LeaseGranted): …`"
        )
    return LeaseRequest(held.declared, held.by, held.epoch, now, session)
