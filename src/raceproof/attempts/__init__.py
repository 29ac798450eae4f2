"""One active attempt for an owner: starting a new one ends the old one, and never one that has ended.

Promise: at most one active attempt for an owner; a new one supersedes only an open one; a superseded one can write nothing
more, because every move is guarded by its status (P9). The same key again changes nothing.
"""

from raceproof.attempts.declared import Attempts
from raceproof.attempts.outcome import Kept, Rejected, StartAnswer, Started
from raceproof.attempts.redis import RedisAttempts
from raceproof.attempts.request import StartRequest, WhenOpen, start_request
from raceproof.attempts.sql_programs import PostgresAttempts, SqliteAttempts

__all__ = [
    "Attempts",
    "Kept",
    "PostgresAttempts",
    "RedisAttempts",
    "Rejected",
    "SqliteAttempts",
    "StartAnswer",
    "StartRequest",
    "Started",
    "WhenOpen",
    "start_request",
]
