"""Two processes, of which one is paused at its work until the other has taken over, and then goes on as if nothing had been.

The pause is a real one (SIGSTOP) and longer than any lease, for it lasts until the other has been given the work. Nothing
is left to chance: who is where is known from what the processes say.
"""

import time
from contextlib import closing
from pathlib import Path
from typing import Protocol

from raceproof.ops.demo.scenes.scene import Direction, Line, Post

ROWS = 4
"""How many rows are worked on at a time."""
LEASE = 0.3
"""Seconds after which somebody who has not been heard of counts as gone."""
PAUSE = 0.02


class Hand(Protocol):
    """One side of a scene, as one process."""

    def take(self) -> list[str]:
        """The rows that this process may work on now."""
        ...

    def finish(self, key: str) -> object:
        """The work on this row is done: write it down."""
        ...

    def close(self) -> None: ...


class MakeHand(Protocol):
    """Opens a side."""

    def __call__(self, side: str, database: Path, actor: str) -> Hand: ...


def work(post: Post, make: MakeHand) -> None:
    """What each of the two processes does: take rows, do the work, write it down."""
    with closing(make(post.side, post.database, post.actor)) as hand:
        while post.director.recv() is not None:
            while not (keys := hand.take()):
                time.sleep(PAUSE)
            post.director.send("at work")
            post.director.recv()  # the work: it lasts as long as the director wants
            for key in keys:
                hand.finish(key)
            post.director.send("done")


def relay(direction: Direction) -> None:
    """Rounds in which one is paused and the other takes over; then they change places."""
    first, second = direction.lines.values()
    for number in range(direction.rounds):
        direction.put_in(ROWS)
        _take(first)
        _finish(first)

        direction.put_in(ROWS)
        _take(first)
        first.pause()
        _take(second)  # it gets these rows when the lease is over, and not before
        if number % 2:
            first.resume()
            _finish(first)
            _finish(second)
        else:
            _finish(second)
            first.resume()
            _finish(first)
        first, second = second, first


def rounds(seconds: float) -> int:
    """A round takes a little longer than the lease."""
    return max(2, round(seconds * 0.7))


def _take(line: Line) -> None:
    line.tell("take")
    line.hear("at work")


def _finish(line: Line) -> None:
    line.tell("finish")
    line.hear("done")
