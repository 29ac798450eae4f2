"""Keys as people type them: text on the command line or on stdin. The store converts them to column types."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from raceproof import Delivery
from raceproof.declare import Spec

Key = str | tuple[str, ...]


def parse_key(spec: Spec[Any] | Delivery, text: str, separator: str) -> Key:
    """One key; a composite key is split at the separator."""
    columns = (spec.key,) if isinstance(spec.key, str) else spec.key
    if "\0" in text or not _is_unicode(text):
        raise click.UsageError(f"the key must be printable text without NUL characters, got {text!r}.")
    if len(columns) == 1:
        return text
    parts = tuple(text.split(separator))
    if len(parts) != len(columns):
        wanted = separator.join(columns)
        raise click.UsageError(
            f"the key of {spec} must have {len(columns)} parts, {wanted}; got {len(parts)} in {text!r}. See --key-separator."
        )
    return parts


def parse_keys(spec: Spec[Any] | Delivery, texts: Iterable[str], separator: str) -> list[Key]:
    """Several keys; `-` reads keys from stdin, one per line."""
    return [parse_key(spec, text, separator) for text in _expand(texts)]


def key_of(spec: Spec[Any], row: Mapping[str, Any], typed: Key) -> Any:
    """The key of a row as the store returns it, which may differ from what was typed: 42 for "042"."""
    values = tuple(row.get(column) for column in spec.key)
    if None in values:  # a hash need not repeat its key
        return typed
    return values if len(values) > 1 else values[0]


def written_key(key: Any, separator: str) -> str:
    """A key as another command accepts it."""
    return separator.join(map(str, key)) if isinstance(key, tuple) else str(key)


def _expand(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if text != "-":
            yield text
            continue
        try:
            lines = [line.removesuffix("\r") for line in sys.stdin.read().split("\n")]
            yield from filter(None, lines)
        except UnicodeDecodeError as error:
            raise click.UsageError(f"stdin must be UTF-8 text: {error}.") from error


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
