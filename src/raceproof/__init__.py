"""raceproof: race-proof state for the rows you already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raceproof.attempts import AlreadyActive, Attempts, Started
from raceproof.claims import Claim, DeadLettered, Released, Taken
from raceproof.connect import connect
from raceproof.declare import Backoff, Lifecycle, claimable, column, move, sql
from raceproof.deliveries import Delivery, DeliveryRecorded, PermitLost, SendPermit, SendRefused
from raceproof.drivers import bind
from raceproof.inbox import Inbox, Received
from raceproof.kernel.answers import Conflict, Lost, Missing, NotReached, Unknown
from raceproof.kernel.errors import DeclarationError, RaceproofError, StoreUnavailable
from raceproof.leases import Lease, LeaseGranted, LeaseHeldByOther
from raceproof.moves import Already, Moved, Refused
from raceproof.store import AsyncStore, Store

if TYPE_CHECKING:
    from raceproof.run import ConcurrencyLimit, Leader, Scheduler, Worker
    from raceproof.schema import ddl

__version__ = "0.1.0"

__all__ = [
    "Already",
    "AlreadyActive",
    "AsyncStore",
    "Attempts",
    "Backoff",
    "Claim",
    "ConcurrencyLimit",
    "Conflict",
    "DeadLettered",
    "DeclarationError",
    "Delivery",
    "DeliveryRecorded",
    "Inbox",
    "Leader",
    "Lease",
    "LeaseGranted",
    "LeaseHeldByOther",
    "Lifecycle",
    "Lost",
    "Missing",
    "Moved",
    "NotReached",
    "PermitLost",
    "RaceproofError",
    "Received",
    "Refused",
    "Released",
    "Scheduler",
    "SendPermit",
    "SendRefused",
    "Started",
    "Store",
    "StoreUnavailable",
    "Taken",
    "Unknown",
    "Worker",
    "bind",
    "claimable",
    "column",
    "connect",
    "ddl",
    "move",
    "sql",
]

_ON_FIRST_USE = {
    "Leader": "raceproof.run",
    "ConcurrencyLimit": "raceproof.run",
    "Scheduler": "raceproof.run",
    "Worker": "raceproof.run",
    "ddl": "raceproof.schema",
}
"""Imported when first asked for: a web process that only moves rows needs neither workers nor DDL."""


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_ON_FIRST_USE[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
