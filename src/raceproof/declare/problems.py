"""What is wrong with a declaration, all of it in one message."""

from collections.abc import Iterable, Mapping
from typing import Any

from raceproof.kernel.errors import DeclarationError
from raceproof.kernel.shown import did_you_mean


def names(what: str, value: Any) -> tuple[Any, ...]:
    """One name or several, always as a tuple."""
    if isinstance(value, str):
        return (value,)
    found = tuple(value) if isinstance(value, Iterable) else (value,)
    for one in found:
        if not isinstance(one, str):
            raise DeclarationError(f"{what}: write a name or a list of names, not {value!r}")
    return found


def one_name(what: str, value: Any) -> Any:
    """A setting that is one name."""
    if not isinstance(value, str):
        raise DeclarationError(f"{what}: write a name, not {value!r}")
    return value


def listed(what: str, value: Any) -> list[Any]:
    """A setting that is a list."""
    if not isinstance(value, list | tuple):
        raise DeclarationError(f"{what}: must be a list, not {value!r}")
    return list(value)


def pair(what: str, value: Any) -> tuple[Any, Any]:
    """A setting that is two numbers."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise DeclarationError(f"{what}: must be a list of two numbers, not {value!r}")
    return value[0], value[1]


def settings(what: str, data: Any, known: frozenset[str], required: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """A table of settings, of which all that are needed are there and none is unknown."""
    table = mapping(what, data)
    for key in required:
        if key not in table:
            raise DeclarationError(f"{what}: {key} is missing")
    if unknown := sorted(str(key) for key in table if key not in known):
        hint = did_you_mean(unknown[0], known)
        raise DeclarationError(
            f"{what}: unknown setting {', '.join(unknown)}{hint}; known are {', '.join(sorted(known))}"
        )
    return table


def mapping(what: str, data: Any) -> Mapping[str, Any]:
    """A table of names and what each means."""
    if not isinstance(data, Mapping):
        raise DeclarationError(f"{what}: must be a table of settings, not {data!r}")
    return data


class Problems:
    """Collects everything that is wrong, so that a declaration is mended once and not five times."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: list[str] = []

    def require(self, holds: bool, problem: str) -> None:
        if not holds and problem not in self._found:
            self._found.append(problem)

    def raise_if_any(self) -> None:
        if self._found:
            raise DeclarationError(f"lifecycle {self._name}: " + "; ".join(self._found))
