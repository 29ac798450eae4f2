"""A row moves along a declared path, or it does not move: the first primitive.

The same decision three times, side by side: `postgres.sql`, `sqlite.sql`, `redis.lua`. Around each, a program of the same
name that yields the statements and makes the answer; `request.py` is what goes in, `answers.py` what comes out.
"""

from raceproof.moves.answers import Already, Answer, HistoryEntry, Moved, Refused

__all__ = ["Already", "Answer", "HistoryEntry", "Moved", "Refused"]
