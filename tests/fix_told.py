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
    """Of a first call; one that asks again for an earlier call says so of itself alone."""
    notes = notes_of(error)
    return "nothing of this call was kept" in notes or "this call wrote nothing" in notes
