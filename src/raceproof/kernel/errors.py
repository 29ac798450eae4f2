"""The few errors of the library. Losing a race is not among them: that is an answer (see `raceproof.kernel.answers`)."""

__all__ = ["CallError", "DeclarationError", "MissingExtra", "RaceproofError", "ScriptFailed", "StoreUnavailable"]


class RaceproofError(Exception):
    """Base of everything that this library raises itself; drivers' own errors pass through with a note added."""


class DeclarationError(RaceproofError):
    """A lifecycle, a name or a predicate is declared in a way that cannot work."""


class CallError(RaceproofError):
    """A call does not fit the declaration: an unknown move, a key of the wrong shape, a column it may not set."""


class MissingExtra(RaceproofError, ImportError):
    """A package is needed that is not installed; the message names the extra."""


def missing_extra(package: str, extra: str) -> MissingExtra:
    """The error for a package that is not installed, with what installs it."""
    return MissingExtra(
        f"{package} is not installed: install the extra {extra!r} of raceproof,"
        f" with pip install '.[{extra}]' in a checkout of it"
    )


class ScriptFailed(RaceproofError):
    """Redis could not decide a row: its fields, or its history, are not what the declaration says."""


class StoreUnavailable(RaceproofError):
    """The store answers, but takes no writes now: it became a replica, is out of memory, or is still loading.

    Nothing of the call was kept, and the same call again is safe. Workers and leaders ask again by themselves.
    """


class NotReplicated(RaceproofError):
    """PostgreSQL has committed, and warned that its synchronous standby has not confirmed it; the cause of an `Unknown`."""
