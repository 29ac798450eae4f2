"""Why the work on a row did not come to its end: whose fault it is decides what becomes of the row.

Nothing was wrong with the row (`NotNow`): it is put back untried. The row cannot be done (`Hopeless`): it is dead-lettered
at once, because trying again costs money and changes nothing. Any other exception is the row's own failure: it is counted,
the row backs off, and after its last attempt it is dead-lettered.
"""

LONGEST_REASON = 300


class NotNow(Exception):
    """Put the row back, untried, to back off for `delay` seconds."""

    def __init__(self, why: str, delay: float = 0.0) -> None:
        super().__init__(why)
        self.delay = delay


class Paused(NotNow):
    """What the stage depends on is paused, or has just failed so that it is."""


class ProviderFailed(NotNow):
    """The provider failed, not the row: one in a row of failures after which the stage is paused."""


class Busy(NotNow):
    """All slots are taken, or the same question is being answered for another row."""


class Hopeless(Exception):
    """The row cannot be done as it is; a person may `retry` it when something has changed."""


def one_line(text: str, longest: int = LONGEST_REASON) -> str:
    """A text from outside, as it may be shown and stored."""
    told = text[: longest * 4].encode(errors="replace").decode()
    plain = "".join(one if one.isprintable() else " " for one in told)
    return " ".join(plain.split())[:longest]
