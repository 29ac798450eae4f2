"""PostgreSQL's five-character code of an error, whichever driver or framework has wrapped it."""

READ_ONLY = "25006"
"""A server that takes no writes: a standby, or a primary that was demoted."""

LEAVE = frozenset((READ_ONLY, "57P01", "57P02", "57P03"))
"""The server is read-only, shuts down, crashed or starts up: another one may be the primary by now."""


def sqlstate(error: BaseException | None) -> str | None:
    """The SQLSTATE of an error, also of one that a framework has wrapped."""
    for one in (error, getattr(error, "orig", None), getattr(error, "__cause__", None)):
        code = getattr(one, "sqlstate", None) or getattr(one, "pgcode", None)
        if isinstance(code, str):
            return code
    return None


def leaves(error: BaseException) -> bool:
    """Whether a connection that raised this error has to be closed."""
    return sqlstate(error) in LEAVE
