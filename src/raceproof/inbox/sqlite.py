"""The inbox on SQLite: each event is inserted by itself, under the write lock."""

from collections.abc import Sequence
from datetime import datetime

from raceproof.inbox.arrival import Arrival
from raceproof.inbox.declared import Inbox
from raceproof.inbox.program import Key, headers_text
from raceproof.inbox.sql import SqlInbox
from raceproof.kernel.statement import Program, transaction


class SqliteInbox(SqlInbox):
    """The programs of the inbox."""

    def _stored(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[set[Key]]:
        lock = self.text("inbox.lock", inbox).bind({})
        return (yield from transaction(self.dialect.begin(lock), self._insert(inbox, arrivals, now)))

    def _insert(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[set[Key]]:
        text, (moment,) = self.text("inbox.receive", inbox, now), self.dialect.stored((now,))
        new: set[Key] = set()
        for one in arrivals:
            values = {**one._asdict(), "headers": headers_text(one.headers), "now": moment}
            new.update((row[0], row[1]) for row in (yield text.bind(values)))
        return new
