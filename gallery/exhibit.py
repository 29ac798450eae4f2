"""What an exhibit of the gallery says about itself; the code beside it says the rest."""

from dataclasses import dataclass

from raceproof.testing.explorer import Limits

USUAL = Limits(seconds=60.0)
"""All faults, three deviations, and enough time for a slow machine."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """The words of one page. Texts are Markdown, one paragraph each."""

    title: str
    story: str
    """What a user sees."""
    follows: str
    """Where the naive design comes from."""
    quoted: str
    """The lines that it follows, or nothing."""
    right: str
    """What is right about it."""
    schedule: str
    """The smallest failing schedule; the tests hold the explorer to it."""
    why: str
    """One sentence: why that schedule fails."""
    answer: str
    """What the guarded version does instead, and what it does not promise."""
    search: Limits = USUAL
    """How the naive version is explored, until it fails."""
    limits: Limits = USUAL
    """How far the certificate of the guarded version goes."""
    holds: Limits | None = None
    """How far the naive version does hold, if that is worth telling."""
    also: str = ""
    """Another failing schedule, which `why` speaks of."""
