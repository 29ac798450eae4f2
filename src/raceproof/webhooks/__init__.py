"""Events of others over HTTP: verified, checked and handed to a receiver before the sender gets its 200.

The adapters are `raceproof.webhooks.asgi` and `raceproof.webhooks.aiohttp`.
"""

from raceproof.inbox.arrival import Arrival
from raceproof.webhooks.endpoint import Endpoint, Observer
from raceproof.webhooks.headers import Headers
from raceproof.webhooks.reply import Reason, Reply
from raceproof.webhooks.scheme import Rejected, Scheme, Verified
from raceproof.webhooks.secret import Secret
from raceproof.webhooks.signatures import Hmac, StandardWebhooks, TelegramSecret, Unsigned
from raceproof.webhooks.strict_json import BadJson, parse

__all__ = [
    "Arrival",
    "BadJson",
    "Endpoint",
    "Headers",
    "Hmac",
    "Observer",
    "Reason",
    "Rejected",
    "Reply",
    "Scheme",
    "Secret",
    "StandardWebhooks",
    "TelegramSecret",
    "Unsigned",
    "Verified",
    "parse",
]
