"""Our side of every comparison: the public calls, nothing else."""

from typing import Any

from bench.commands import ACTOR, Commands
from bench.raw import Call


def one(db: Any, table: Commands) -> Call:
    """A single move, sync or async as the store is."""
    moves = table.moves
    if table.history:
        return lambda step, key: db.move(moves[step], key, by=ACTOR)
    return lambda step, key: db.move(moves[step], key)


def many(db: Any, table: Commands) -> Call:
    """A bulk; the key is a list of keys."""
    moves = table.moves
    if table.history:
        return lambda step, keys: db.move_many(moves[step], keys, by=ACTOR)
    return lambda step, keys: db.move_many(moves[step], keys)


def won(answer: Any) -> bool:
    return bool(answer.won)


def all_won(answers: Any) -> bool:
    return all(answer.won for answer in answers)
