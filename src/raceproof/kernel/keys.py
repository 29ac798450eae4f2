"""Keys as callers write them, checked, and as the values and texts that stores know."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from raceproof.declare.spec import Spec
from raceproof.kernel.errors import CallError

KeyParts = tuple[Any, ...]


_SCALARS = (str, int, UUID)


def key_parts(spec: Spec[Any], key: Any, tenant: Any) -> KeyParts:
    """A key as one value for each key column, the tenant first."""
    return keyed_parts(spec, spec.key, spec.tenant, key, tenant)


def all_key_parts(spec: Spec[Any], keys: Iterable[Any], tenant: Any) -> list[KeyParts]:
    """The same for many keys."""
    keys = list(keys)
    if spec.plain_key and set(map(type, keys)) == {int}:
        return list(zip(keys, strict=True))  # nothing about a number needs a look
    return [key_parts(spec, key, tenant) for key in keys]


def keyed_parts(asked: object, columns: tuple[str, ...], tenants: str | None, key: Any, tenant: Any) -> KeyParts:
    """The same for anything that finds its rows by these columns."""
    if not tenants and len(columns) == 1 and (type(key) is int or (type(key) is str and is_clean(key))):
        return (key,)  # the usual case, without further checks
    parts: KeyParts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(columns):
        expected = columns[0] if len(columns) == 1 else "a tuple (" + ", ".join(columns) + ")"
        raise CallError(f"{asked}: a key is {expected}, not {key!r}")
    if tenants:
        if tenant is None:
            raise CallError(f"{asked} has a tenant column: say whose rows with bind(…, tenant=…)")
        parts = (tenant, *parts)
    for part in parts:
        if not isinstance(part, _SCALARS) or isinstance(part, bool):
            raise CallError(f"{asked}: a key is text, int or UUID, or a tuple of these, not {key!r}")
        if isinstance(part, str) and not is_clean(part):
            raise CallError(f"{asked}: a key is valid Unicode without NUL, not {key!r}")
    return parts


def user_key(of: Any, parts: Any) -> Any:
    """A key as the caller writes it: without the tenant, a tuple only if it has several columns."""
    own = tuple(parts)[1:] if of.tenant else tuple(parts)
    return own if len(own) > 1 else own[0]


def is_clean(text: str) -> bool:
    """Whether a text is valid Unicode without NUL; half a surrogate pair is not."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def key_text(parts: KeyParts) -> str:
    """A key as one text, as it stands in the history and in Redis: parts joined by a colon, escaped so none can collide."""
    if len(parts) == 1:
        return str(parts[0])
    return ":".join(str(part).replace("%", "%25").replace(":", "%3A") for part in parts)
