"""Who opened a Mini App: Telegram signs that with the token of its bot."""

import hashlib
import hmac
import json
import time
from urllib.parse import parse_qsl

FRESH = 3600.0


def user_of(init_data: str, bot_token: str, now: float | None = None) -> str | None:
    """The id of the user whom Telegram has signed for; nothing if the signature is wrong or old."""
    fields = dict(parse_qsl(init_data, keep_blank_values=True))
    told = fields.pop("hash", "")
    checked = "\n".join(f"{name}={value}" for name, value in sorted(fields.items()))
    secret = hmac.digest(b"WebAppData", bot_token.encode(), hashlib.sha256)
    made = hmac.new(secret, checked.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(made.encode(), told.encode(errors="replace")):
        return None
    try:
        age = (time.time() if now is None else now) - float(fields["auth_date"])
        user = json.loads(fields["user"])["id"]
    except (KeyError, ValueError, TypeError):
        return None
    return str(user) if isinstance(user, int) and -60 < age < FRESH else None
