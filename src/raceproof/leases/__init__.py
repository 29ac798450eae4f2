"""Leases: one holder at a time, by the store's clock; the row with its holder and epoch is the truth.

Promise: at most one process holds the current epoch; renewals match holder and epoch; an epoch is never used twice; writes
that carry an older epoch are refused (P10). Not promised: that two processes never both believe that they lead.
"""

from raceproof.leases.declared import Lease
from raceproof.leases.outcome import LeadAnswer, Leading, Led, StepDownAnswer, SteppedDown
from raceproof.leases.redis import RedisLeases
from raceproof.leases.sql_programs import PostgresLeases, SqliteLeases, lease_ddl

__all__ = [
    "LeadAnswer",
    "Leading",
    "Lease",
    "Led",
    "PostgresLeases",
    "RedisLeases",
    "SqliteLeases",
    "StepDownAnswer",
    "SteppedDown",
    "lease_ddl",
]
