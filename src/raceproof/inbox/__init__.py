"""The inbox: verify → keep → answer 200 → work.

Promise: when `receive` returns, the event is durable; the same event id is worked on once while it is remembered (P8).
Not promised: order between events that arrive at the same time; events that were never answered.
"""

from raceproof.inbox.declared import Inbox
from raceproof.inbox.outcome import Received
from raceproof.inbox.redis import RedisInbox
from raceproof.inbox.sql_programs import PostgresInbox, SqliteInbox, inbox_ddl, inbox_statements

__all__ = ["Inbox", "PostgresInbox", "Received", "RedisInbox", "SqliteInbox", "inbox_ddl", "inbox_statements"]
