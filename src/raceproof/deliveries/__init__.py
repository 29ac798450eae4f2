"""Once-only delivery: win, send, and mark after the send.

Promise: an outside effect is tried at least once, and again only when nobody knows how the last try ended, with the same
idempotency key; in mode *hold* it is tried at most once and the unknown is shown (P7). Only the current winner's mark is
accepted (P5). Not promised: exactly once at a receiver that does not deduplicate.
"""

from raceproof.deliveries.answers import DeliveryRecorded, NotSent, PermitLost, SendPermit, SendRefused
from raceproof.deliveries.declared import Delivery, DeliveryState, Policy

__all__ = [
    "Delivery",
    "DeliveryRecorded",
    "DeliveryState",
    "NotSent",
    "PermitLost",
    "Policy",
    "SendPermit",
    "SendRefused",
]
