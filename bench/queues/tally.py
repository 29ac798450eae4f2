"""Which items were worked on, told by any number of processes and threads to one file: eight bytes for each call."""

import os
from array import array
from collections.abc import Sequence
from pathlib import Path

_WIDTH = 8


class NotOnce(RuntimeError):
    """Some item was not worked on, or more than once: the figure would be of something else."""


class Tally:
    """A file that is only appended to, which is atomic for so few bytes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def ran(self, item: int) -> None:
        os.write(self._file, item.to_bytes(_WIDTH, "little"))

    def count(self) -> int:
        return os.fstat(self._file).st_size // _WIDTH

    def check(self, items: Sequence[int]) -> None:
        """Each of these was called once, and nothing else."""
        found = array("q", Path(self.path).read_bytes()).tolist()
        if sorted(found) != sorted(items):
            again = len(found) - len(set(found))
            missing = len(set(items) - set(found))
            raise NotOnce(f"of {len(items)} items {missing} never ran, and {again} calls were of an item that had run")

    def close(self) -> None:
        os.close(self._file)
