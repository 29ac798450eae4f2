"""Events of others over HTTP: verified, checked and handed to a receiver before anybody is told 200.

The adapters are `raceproof.intake.asgi` and `raceproof.intake.aiohttp`.
"""

from raceproof.intake.endpoint import Arrival, Endpoint, Observer
from raceproof.intake.headers import Headers
from raceproof.intake.reply import Reason, Reply
from raceproof.intake.scheme import Rejected, Scheme, Verified
from raceproof.intake.secret import Secret
from raceproof.intake.signatures import Hmac, KieSignature, StandardWebhooks, TelegramSecret, Unsigned
from raceproof.intake.strict_json import BadJson, parse

__all__ = [
    "Arrival",
    "BadJson",
    "Endpoint",
    "Headers",
    "Hmac",
    "KieSignature",
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
