"""Keys as they can be pasted into a shell: their parts are separated by something that none of them contains."""

import itertools
from typing import Any

_SEPARATORS = (";", "|", "/", " ")


def key_words(key: Any, wanted: str = ",") -> tuple[str, ...]:
    """What names a row in a command: the key is the last word, and an option says what separates it if no comma does."""
    if not isinstance(key, tuple):
        return (str(key),)
    separator = separator_for(key, wanted)
    text = separator.join(map(str, key))
    return (text,) if separator == "," else ("--key-separator", separator, text)


def separator_for(key: tuple[Any, ...], wanted: str) -> str:
    """What stands between the parts of a key, so that they come apart again as they were."""
    parts = [str(part) for part in key]
    others = (f"<{number}>" for number in itertools.count(1))  # no end of one is the beginning of another
    return next(
        separator
        for separator in itertools.chain((wanted, ",", *_SEPARATORS), others)
        if separator and separator.join(parts).split(separator) == parts
    )
