"""Values in messages for people, the way they write them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any
from uuid import UUID


def shown_key(key: Any) -> str:
    """A key as in a message: text in quotes, a UUID by its digits, several parts in parentheses."""
    if isinstance(key, tuple):
        return f"({', '.join(map(shown_key, key))})"
    return str(key) if isinstance(key, UUID) else repr(key)


def shown_moment(moment: datetime) -> str:
    """A moment in UTC, to the microsecond where it is known so well: races are decided within one second."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(' ', 'microseconds' if utc.microsecond % 1000 else 'milliseconds')} UTC"


def did_you_mean(name: str, known: Iterable[str], form: str = "{}") -> str:
    """A hint at the closest known name; empty if none is close."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {form.format(close[0])}?" if close else ""
