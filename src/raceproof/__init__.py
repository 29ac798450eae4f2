"""raceproof: race-proof state for the rows you already have."""

from raceproof.attempts import Attempts, Kept, Rejected, Started
from raceproof.deliveries import Delivery, DeliveryState, Marked, NotSent, NoTurn, Turn, TurnLost
from raceproof.diagram import mermaid, svg
from raceproof.errors import (
    CallError,
    DeclarationError,
    MissingExtra,
    RaceproofError,
    ScriptFailed,
    StoreUnavailable,
)
from raceproof.events import Event, log_to, subscribe, subscribed
from raceproof.explain import Explanation, explain
from raceproof.forms import Columns, Marker, Timestamp
from raceproof.guard import drop_ddl, guard_ddl
from raceproof.inbox import Inbox, Received, inbox_ddl
from raceproof.intake import Arrival
from raceproof.leader import Leader, NotLeading, Role
from raceproof.leases import Leading, Lease, Led, SteppedDown, lease_ddl
from raceproof.lifecycle import Lifecycle, claim, move, spec_of
from raceproof.look import HeldClaim, HistoryEntry
from raceproof.metrics import count_decisions
from raceproof.migrations import backfill, ddl
from raceproof.outcome import (
    Already,
    Answer,
    Claim,
    Conflict,
    Lost,
    Missing,
    Moved,
    NotReached,
    Refused,
    Released,
    SetAside,
    Taken,
    Unknown,
)
from raceproof.predicate import column, sql
from raceproof.schema import attempt_index_ddl, claim_index_ddl, history_ddl
from raceproof.spec import Backoff, Claimable, Expiry, History, Move, Spec
from raceproof.store import AsyncStore, Store
from raceproof.stores.bind import bind
from raceproof.stores.connect import connect
from raceproof.sweep import Swept, asweep, sweep
from raceproof.tracing import trace_decisions
from raceproof.verify import Finding, Trial
from raceproof.worker import Failure, Finished, Limit, Scheduler, Schedules, Worker, schedule_ddl

__version__ = "0.1.0"

__all__ = [
    "Already",
    "Answer",
    "Arrival",
    "AsyncStore",
    "Attempts",
    "Backoff",
    "CallError",
    "Claim",
    "Claimable",
    "Columns",
    "Conflict",
    "DeclarationError",
    "Delivery",
    "DeliveryState",
    "Event",
    "Expiry",
    "Explanation",
    "Failure",
    "Finding",
    "Finished",
    "HeldClaim",
    "History",
    "HistoryEntry",
    "Inbox",
    "Kept",
    "Leader",
    "Leading",
    "Lease",
    "Led",
    "Lifecycle",
    "Limit",
    "Lost",
    "Marked",
    "Marker",
    "Missing",
    "MissingExtra",
    "Move",
    "Moved",
    "NoTurn",
    "NotLeading",
    "NotReached",
    "NotSent",
    "RaceproofError",
    "Received",
    "Refused",
    "Rejected",
    "Released",
    "Role",
    "Scheduler",
    "Schedules",
    "ScriptFailed",
    "SetAside",
    "Spec",
    "Started",
    "SteppedDown",
    "Store",
    "StoreUnavailable",
    "Swept",
    "Taken",
    "Timestamp",
    "Trial",
    "Turn",
    "TurnLost",
    "Unknown",
    "Worker",
    "asweep",
    "attempt_index_ddl",
    "backfill",
    "bind",
    "claim",
    "claim_index_ddl",
    "column",
    "connect",
    "count_decisions",
    "ddl",
    "drop_ddl",
    "explain",
    "guard_ddl",
    "history_ddl",
    "inbox_ddl",
    "lease_ddl",
    "log_to",
    "mermaid",
    "move",
    "schedule_ddl",
    "spec_of",
    "sql",
    "subscribe",
    "subscribed",
    "svg",
    "sweep",
    "trace_decisions",
]
