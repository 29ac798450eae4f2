"""raceproof: race-proof state for the rows you already have."""

from raceproof.diagram import mermaid, svg
from raceproof.errors import CallError, DeclarationError, MissingExtra, RaceproofError, ScriptFailed
from raceproof.events import Event, log_to, subscribe, subscribed
from raceproof.explain import Explanation, explain
from raceproof.guard import drop_ddl, guard_ddl
from raceproof.lifecycle import Lifecycle, move, spec_of
from raceproof.look import HistoryEntry
from raceproof.metrics import count_decisions
from raceproof.outcome import Already, Answer, Conflict, Lost, Missing, Moved, NotReached, Refused, Unknown
from raceproof.predicate import column, sql
from raceproof.schema import history_ddl
from raceproof.spec import History, Move, Spec
from raceproof.store import AsyncStore, Store
from raceproof.stores.bind import bind
from raceproof.stores.connect import connect
from raceproof.tracing import trace_decisions
from raceproof.verify import Finding, Trial

__version__ = "0.1.0"

__all__ = [
    "Already",
    "Answer",
    "AsyncStore",
    "CallError",
    "Conflict",
    "DeclarationError",
    "Event",
    "Explanation",
    "Finding",
    "History",
    "HistoryEntry",
    "Lifecycle",
    "Lost",
    "Missing",
    "MissingExtra",
    "Move",
    "Moved",
    "NotReached",
    "RaceproofError",
    "Refused",
    "ScriptFailed",
    "Spec",
    "Store",
    "Trial",
    "Unknown",
    "bind",
    "column",
    "connect",
    "count_decisions",
    "drop_ddl",
    "explain",
    "guard_ddl",
    "history_ddl",
    "log_to",
    "mermaid",
    "move",
    "spec_of",
    "sql",
    "subscribe",
    "subscribed",
    "svg",
    "trace_decisions",
]
