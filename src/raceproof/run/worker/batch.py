"""How many rows to claim next: as many as are finished in a short while, so little is held and the store is asked rarely."""

_LONGEST = 0.25


class BatchSize:
    """Grows while batches are finished quickly, shrinks when they take long; never below what can run at once."""

    def __init__(self, least: int, most: int, longest: float = _LONGEST) -> None:
        self._least = least
        self._most = max(least, most)
        self._longest = longest
        self.size = least

    def took(self, items: int, seconds: float) -> None:
        """`items` were finished in `seconds`, and there were more to do."""
        fitting = int(items * self._longest / seconds) if seconds > 0 else self._most
        self.size = max(self._least, min(self._most, fitting, self.size * 4))
