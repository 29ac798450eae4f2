"""The headers of a request in any form that callers have them, asked by lower-case name.

Accepted are mappings with names in any capitalisation (dict, Starlette, multidict, Django, httpx) and (name, value) pairs,
in text or in bytes. Of a header that comes twice the first counts, as in every adapter; content encodings are all listed,
because each of them was applied to the body. Nothing of a value is ever put into an error: it may be a secret.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from raceproof.kernel.errors import CallError

_ACCEPTED = "pass a mapping of header names to values, or (name, value) pairs, in str or bytes"


class Headers(Protocol):
    """The headers of a request, asked by lower-case name."""

    def get(self, name: str, /) -> str | None: ...


AnyHeaders = Headers | Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[str | bytes, str | bytes]]
"""What `headers_of` accepts."""


class Lowered:
    """Headers whose `get` takes lower-case names already: what an adapter has checked itself."""

    __slots__ = ()

    def get(self, name: str, /) -> str | None:
        raise NotImplementedError


class LoweredDict(dict[str, str], Lowered):
    """Each header once, by its lower-case name."""

    __slots__ = ()


def headers_of(given: AnyHeaders) -> Headers:
    """The same headers asked by lower-case name, or a `CallError` that says what is wrong with them."""
    if isinstance(given, Lowered):
        return given
    if isinstance(given, str | bytes | bytearray | memoryview):
        raise CallError(f"headers must not be one {type(given).__name__}: {_ACCEPTED}")
    items = getattr(given, "items", None)
    if callable(items):
        return _lowered(items())
    if isinstance(given, Iterable):
        return _lowered(given)
    if callable(getattr(given, "get", None)):
        return given
    raise CallError(f"headers must not be a {type(given).__name__}: {_ACCEPTED}")


def _lowered(pairs: Iterable[Any]) -> LoweredDict:
    found = LoweredDict()
    for pair in pairs:
        if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) or len(both := tuple(pair)) != 2:
            raise CallError(f"headers contain a {type(pair).__name__} that is not a (name, value) pair: {_ACCEPTED}")
        name = _text(both[0], "the name of a header")
        value = _text(both[1], f"the value of the header {name}")
        # only ASCII letters have two cases in HTTP: the Kelvin sign must not become a k
        name = name.lower() if name.isascii() else name
        if name not in found:
            found[name] = value
        elif name == "content-encoding":
            found[name] += f", {value}"
    return found


def _text(given: object, what: str) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, bytes):
        return given.decode("latin-1")
    raise CallError(f"{what} must be str or bytes, got {type(given).__name__}: {_ACCEPTED}")
