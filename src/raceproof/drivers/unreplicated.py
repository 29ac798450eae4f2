"""PostgreSQL's warning that a commit was not confirmed by the synchronous standby: the statement succeeds nevertheless."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from raceproof.kernel.errors import NotReplicated
from raceproof.kernel.statement import AcknowledgementLost

_ROUTINE = "SyncRepWaitForLSN"
"""Where the server raises it; unlike its text, this is the same in every language."""


class Warned:
    """Listens on a connection of asyncpg or psycopg while a statement commits."""

    __slots__ = ("_message",)

    def __init__(self) -> None:
        self._message: str | None = None

    def of_asyncpg(self, _: Any, message: Any) -> None:
        if message.server_source_function == _ROUTINE:
            self._message = str(message.message)

    def of_psycopg(self, diagnostic: Any) -> None:
        if diagnostic.source_function == _ROUTINE:
            self._message = str(diagnostic.message_primary)

    def forget(self) -> None:
        """Begin again, for another statement."""
        self._message = None

    @property
    def message(self) -> str | None:
        """What the server said."""
        return self._message


def confirm(warned: Warned) -> None:
    """Raise AcknowledgementLost if the server warned: whether the commit survives is not known."""
    if warned.message is not None:
        raise AcknowledgementLost from NotReplicated(
            f"PostgreSQL committed, but its synchronous standby has not confirmed it ({warned.message}). "
            "A failover may lose it. Make the same call again: it is answered when the standby has it"
        )


@contextmanager
def confirming(raw: Any) -> Iterator[None]:
    """Listen on the driver's own connection behind a framework while a statement commits there; others are not heard."""
    warned = Warned()
    stop: Callable[[], None]
    if hasattr(raw, "add_notice_handler"):
        raw.add_notice_handler(warned.of_psycopg)
        stop = partial(raw.remove_notice_handler, warned.of_psycopg)
    elif hasattr(raw, "add_log_listener"):
        raw.add_log_listener(warned.of_asyncpg)
        stop = partial(raw.remove_log_listener, warned.of_asyncpg)
    else:
        yield
        return
    try:
        yield
    finally:
        stop()
    confirm(warned)
