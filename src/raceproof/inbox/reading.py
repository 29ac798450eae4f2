"""Events as people and tools read them. Nothing is decided here."""

from abc import abstractmethod
from datetime import datetime

from raceproof.claims.redis_index import lines_key
from raceproof.inbox.declared import Inbox
from raceproof.kernel.dialect import SqlDialect, Texts
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Prepared, Program, Rows, Statement


class SqlInboxReading:
    """On an SQL database."""

    def __init__(self, dialect: SqlDialect) -> None:
        self.dialect = dialect
        self.texts: Texts = dialect.texts("inbox", "reading.sql")

    def counts(self, inbox: Inbox) -> Program[Rows]:
        """Status, how many, and the oldest."""
        return (yield self.text("inbox.counts", inbox).bind({}))

    def listed(self, inbox: Inbox, status: str, limit: int) -> Program[Rows]:
        """Events at a status, the oldest first."""
        return (yield self.text("inbox.list", inbox).bind({"status": status, "limit": limit}))

    @abstractmethod
    def text(self, name: str, inbox: Inbox, now: datetime | None = None) -> Prepared:
        """A statement."""


class RedisInboxReading:
    """On Redis and Valkey."""

    def counts(self, inbox: Inbox) -> Program[Rows]:
        """How many wait or are worked on, also behind others in their lines; those that have ended are not counted."""
        (waiting,) = yield Statement("inbox.counts", "HLEN", (lines_key(inbox.work),))
        return [["received or processing", waiting, None]]

    def listed(self, inbox: Inbox, status: str, limit: int) -> Program[Rows]:
        raise CallError(f"{inbox}: Redis cannot search hashes for events at {status!r}; ask for their keys")
        yield
