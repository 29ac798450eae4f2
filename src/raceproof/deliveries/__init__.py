"""Once-only delivery: win, send, and mark after the send.

Promise: an outside effect is tried at least once, and again only when nobody knows how the last try ended, with the same
idempotency key; in mode *hold* it is tried at most once and the unknown is shown (P7). Only the current winner's mark is
accepted (P5). Not promised: exactly once at a receiver that does not deduplicate.
"""

from raceproof.deliveries.declared import Delivery, DeliveryState, Policy
from raceproof.deliveries.outcome import Marked, NotSent, NoTurn, Turn, TurnLost
from raceproof.deliveries.redis import RedisDeliveries
from raceproof.deliveries.request import TurnRequest, turn_request
from raceproof.deliveries.sql_programs import PostgresDeliveries, SqliteDeliveries

__all__ = [
    "Delivery",
    "DeliveryState",
    "Marked",
    "NoTurn",
    "NotSent",
    "Policy",
    "PostgresDeliveries",
    "RedisDeliveries",
    "SqliteDeliveries",
    "Turn",
    "TurnLost",
    "TurnRequest",
    "turn_request",
]
