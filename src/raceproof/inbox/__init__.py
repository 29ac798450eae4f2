"""The inbox: verify → keep → answer 200 → work.

Promise: when `receive` returns, the event is durable; the same event id is worked on once while it is remembered (P8).
Not promised: order between events that arrive at the same time; events that were never answered.
"""

from raceproof.inbox.answers import Received
from raceproof.inbox.arrival import Arrival
from raceproof.inbox.declared import Inbox

__all__ = ["Arrival", "Inbox", "Received"]
