"""Template filters: values as escaped text, times relative to now, without anything that looks like a secret."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from raceproof.kernel.secrecy import redacted

_LONGEST = 2000

GOOD = {"moved", "claimed", "started", "delivered", "done", "won", "released", "held", "granted", "possible", "active"}
BAD = {
    "refused",
    "lost",
    "uncertain",
    "dead",
    "error",
    "stale",
    "expired",
    "impossible",
    "conflict",
    "failed",
    "overdue",
}
WARN = {"already", "sending", "reserved", "unknown", "depends", "taken", "duplicate", "asked", "superseded", "warning"}


def problem(error: BaseException) -> str:
    """An error in one line, for a page."""
    if isinstance(error, TimeoutError):
        return "the store did not answer in time"
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    return redacted(f"{type(error).__name__}: {said}")[:300]


def key_text(parts: Sequence[Any]) -> str:
    """A key for people."""
    return " · ".join(str(part) for part in parts)


def shown(value: Any, longest: int = 80) -> str:
    """A value of a row for people."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(bytes(value))} bytes"
    text = redacted(value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)[:_LONGEST])
    return text if len(text) <= longest else text[: longest - 1] + "…"


def span(seconds: float) -> str:
    """A number of seconds in the unit that people would use."""
    seconds = abs(seconds)
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    for size, word in ((86400 * 2, "d"), (7200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'d': 86400, 'h': 3600, 'min': 60}[word]:.0f} {word}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def when(value: datetime | None, now: datetime | None = None) -> Markup:
    """A moment as "3 min ago", with the exact time behind it."""
    if value is None:
        return Markup('<span class="soft">–</span>')
    seconds = ((now or datetime.now(UTC)) - value).total_seconds()
    words = f"{span(seconds)} ago" if seconds >= 0 else f"in {span(seconds)}"
    exact = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(value.isoformat(), exact, words)


def badge(word: Any, kind: str | None = None) -> Markup:
    """A word in the colour of what it means."""
    text = str(word)
    low = text.lower()
    chosen = kind or ("good" if low in GOOD else "bad" if low in BAD else "warn" if low in WARN else "")
    return Markup('<span class="badge {}">{}</span>').format(chosen, text)


def number(value: int) -> str:
    """A whole number, as all of them are shown."""
    return f"{value:,}"


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("raceproof.ops.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"key": key_text, "shown": shown, "span": span, "when": when, "badge": badge, "number": number}
    made.globals |= {"escape": escape}
    return made
