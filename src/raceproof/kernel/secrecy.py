"""Which names speak of secrets, and texts without them: one list for dashboard, intake, `explain` and command line.

Promise: the value of a column, header or setting with such a name is not shown, and a text that goes through `redacted` has
no password of a URL, of a connection string or of a header left in it. Not promised: secrets under innocent names.
"""

import re
from collections.abc import Collection

HIDDEN = "•••"

_ANYWHERE = re.compile(
    r"passw|passphrase|passcode|pwd|secret|token|credential|cookie|signature|hmac|csrf|xsrf|jwt|session|sessid|private|bearer"
    r"|auth(?!or(?!i[sz]))|(api|ssh|priv|master|access|signing|crypt|encryption|secret)[ _-]?key",
    re.IGNORECASE,
)
"""Parts that give a name away wherever they stand: author and authority are none of them."""
_WORDS = frozenset(
    [
        "pass", "pw", "pin", "pins", "pincode", "otp", "totp", "hotp", "key", "keys", "hash", "hashes", "hashed", "salt",
        "sid", "dsn", "cvv", "cvc",
    ]
)  # fmt: skip
"""Short ones, which are parts of innocent words too: shipping, monkey, footprint."""
_ENDS = ("pass", "dsn")
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=[0-9])")
_IDENTIFIES = re.compile(
    r"(primary|foreign|ordering|sort|partition|routing|shard|natural|dedup|deduplication|idempotency|public)[ _-]?keys?",
    re.IGNORECASE,
)
"""Keys that identify something and open nothing."""

_URL = re.compile(r"(?<=://)\S+")
_NAME = r"(?<![\w.-])[A-Za-z_][\w.-]*"
_QUOTED = r"'(?:[^'\\]|\\.|'')*(?:'|\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\Z)"
_SETTING = re.compile(
    rf"(?P<name>{_NAME})(?P<equals>\s*=\s*)(?:{_QUOTED}|[^\s'\"]\S*)"
    rf"|(?P<mark>['\"])(?P<key>{_NAME})(?P=mark)(?P<colon>\s*:\s*)(?:{_QUOTED}|[^\s'\",}}]+)",
    re.DOTALL,
)
_HEADER = re.compile(
    r"(?P<header>\bauthorization\s*[:=]\s*)[^\s,;]+(?:[ \t]+[^\s,;]+)?|(?P<bearer>\bbearer[ \t]+)[^\s,;]+",
    re.IGNORECASE,
)


def is_secret(name: str, hidden: Collection[str] = ()) -> bool:
    """Whether the name of a column, header or setting says that its value must not be shown."""
    if name in hidden:
        return True
    if _IDENTIFIES.fullmatch(name):
        return False
    words = [word.lower() for word in _SPLIT.split(name) if word]
    return bool(_ANYWHERE.search(name)) or any(word in _WORDS or word.endswith(_ENDS) for word in words)


def redacted(text: str) -> str:
    """A text without what may be a password in it; in doubt, too much of it goes."""
    text = _URL.sub(_without_userinfo, text)
    text = _HEADER.sub(lambda found: f"{found['header'] or found['bearer']}***", text)
    return _SETTING.sub(_without_value, text)


def _without_userinfo(found: re.Match[str]) -> str:
    """Up to the last @ of the URL: a password may have a slash, a question mark or an @ in it that was not encoded."""
    before, at, host = found[0].rpartition("@")
    if at and ("/" not in before or ":" in before):
        return f"***@{host}"
    return found[0]


def _without_value(found: re.Match[str]) -> str:
    name = found["name"] or found["key"]
    if not is_secret(name) or name.lower() in ("key", "keys"):  # a key=… of a message names a row
        return found[0]
    if found["name"]:
        return f"{name}{found['equals']}***"
    return f"{found['mark']}{name}{found['mark']}{found['colon']}***"
