"""One active attempt for an owner: starting a new one ends the old one, and never one that has ended.

Promise: at most one active attempt for an owner; a new one supersedes only an open one; a superseded one can write nothing
more, because every move is guarded by its status (P9). The same key again changes nothing.
"""

from raceproof.attempts.answers import AlreadyActive, Rejected, StartAnswer, Started
from raceproof.attempts.declared import Attempts

__all__ = ["AlreadyActive", "Attempts", "Rejected", "StartAnswer", "Started"]
