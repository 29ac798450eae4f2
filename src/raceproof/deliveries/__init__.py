"""Once-only delivery: take the permit, send, and record the outcome after the send.

Promise: an external effect is retried only if the last attempt failed or its outcome is unknown, always with the same
idempotency key; with the policy *hold* it is attempted at most once and an unknown outcome is surfaced (P7). Only the
current sender's record is accepted (P5). Not promised: exactly once at a receiver that does not deduplicate.
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
