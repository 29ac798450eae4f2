"""The inbox on SQL databases: what PostgreSQL and SQLite share."""

from datetime import datetime

from raceproof.inbox.declared import Inbox
from raceproof.inbox.program import InboxPrograms
from raceproof.inbox.reading import SqlInboxReading
from raceproof.kernel.quoting import literal, parameter, qualified
from raceproof.kernel.statement import Prepared, Program


class SqlInbox(SqlInboxReading, InboxPrograms):
    """The programs of the inbox."""

    def forget(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]:
        values = self.dialect.bound({"keep": -inbox.keep, "now": now, "limit": limit})
        return len((yield self.text("inbox.forget", inbox, now).bind(values)))

    def text(self, name: str, inbox: Inbox, now: datetime | None = None) -> Prepared:
        return self.texts.get(name, (inbox.table, now is None), lambda: self._slots(inbox, now))

    def _slots(self, inbox: Inbox, now: datetime | None) -> dict[str, str]:
        moment = self.dialect.now(now)
        until, lock = self.dialect.plus(moment, parameter("keep")), literal(f"{inbox.table}:")
        return {"table": qualified(inbox.table), "now": moment, "until": until, "lock": lock}
