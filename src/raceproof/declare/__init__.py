"""Declarations: a lifecycle, its moves and claims, checked and frozen into a `Spec`."""

from raceproof.declare.lifecycle import Lifecycle, claimable, move, spec_of
from raceproof.declare.predicate import column, sql
from raceproof.declare.spec import Backoff, Claimable, Expiry, History, Move, Spec

__all__ = [
    "Backoff",
    "Claimable",
    "Expiry",
    "History",
    "Lifecycle",
    "Move",
    "Spec",
    "claimable",
    "column",
    "move",
    "spec_of",
    "sql",
]
