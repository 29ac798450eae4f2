"""What a call told its caller, as a value: an answer, or an error with its notes."""

from collections.abc import Awaitable
from typing import Any


async def told(call: Awaitable[Any]) -> Any:
    """The answer of a call, or the error that it raised."""
    try:
        return await call
    except Exception as error:
        return error


def notes_of(error: BaseException) -> str:
    """What the library has added to a driver's error."""
    return "\n".join(getattr(error, "__notes__", ()))


def says_nothing_was_kept(error: BaseException) -> bool:
    """Whether a first call says that it left no trace."""
    return "this call wrote nothing" in notes_of(error)


def says_it_wrote_nothing(error: BaseException) -> bool:
    """Whether a call that asks again for an earlier one says so of itself alone: the earlier one may have been kept."""
    return "this attempt wrote nothing" in notes_of(error)
