"""A row moves along a declared path, or it does not move: the first primitive.

The same decision three times, side by side: `postgres.sql`, `sqlite.sql`, `redis.lua`. Around each, a program of the same
name that yields the statements and makes the answer; `request.py` is what goes in, `answer.py` what comes out.
"""

from raceproof.moves.postgres import Catalogue, PostgresMoves
from raceproof.moves.redis import RedisMoves
from raceproof.moves.request import MoveRequest, request
from raceproof.moves.sqlite import SqliteMoves

__all__ = ["Catalogue", "MoveRequest", "PostgresMoves", "RedisMoves", "SqliteMoves", "request"]
