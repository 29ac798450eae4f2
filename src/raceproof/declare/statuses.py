"""Statuses as people write them: a StrEnum, any Enum whose values are text, or a Literal.

Inside the library a status is its text, which is what the store has; answers give back the caller's own member.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from raceproof.kernel.errors import DeclarationError

_EXPECTED = "a status must be text, or a member of an Enum whose values are text"


def text_of_status(status: Any) -> str:
    """The status as the store has it: the value of a member, never its name."""
    return str(status.value) if isinstance(status, Enum) else str(status)


def declared_status(what: str, status: Any) -> Any:
    """A status in a declaration as its text; a member that already is and prints its text stays what it is."""
    value = status.value if isinstance(status, Enum) else status
    if not isinstance(value, str):
        raise DeclarationError(f"{what}: {_EXPECTED}, got {_shown(status)}")
    return status if isinstance(status, str) and str(status) == f"{status}" == value else str(value)


def declared_statuses(what: str, statuses: Any) -> tuple[Any, ...]:
    """One status or several, always as a tuple of texts."""
    several = isinstance(statuses, Iterable) and not isinstance(statuses, str)
    return tuple(declared_status(what, one) for one in (statuses if several else (statuses,)))


def members_of(what: str, argument: Any) -> tuple[Any, ...] | None:
    """The statuses that an Enum or a Literal lists; None for anything else, as a type variable."""
    argument = getattr(argument, "__value__", argument)  # `type Status = Literal[…]`, from Python 3.12 on
    if get_origin(argument) is Literal:
        found = get_args(argument)
    elif isinstance(argument, type) and issubclass(argument, Enum):
        found = tuple(argument)
    else:
        return None
    for one in found:
        declared_status(what, one)
    return found


def _shown(status: Any) -> str:
    value = status.value if isinstance(status, Enum) else status
    name = f"{type(status).__name__}.{status.name} = " if isinstance(status, Enum) else ""
    return f"{name}{value!r} ({type(value).__name__})"
