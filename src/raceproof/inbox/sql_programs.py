"""The inbox on PostgreSQL and SQLite, as programs over the statements in `postgres.sql` and `sqlite.sql`."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeVar

from raceproof.errors import CallError
from raceproof.inbox.declared import Inbox
from raceproof.inbox.outcome import Received
from raceproof.intake import Arrival
from raceproof.moves.sqlite import bindable
from raceproof.moves.words import PostgresWords, SqliteWords
from raceproof.quoting import identifier, literal, parameter, qualified, split_qualified
from raceproof.statement import (
    BEGIN,
    Prepared,
    Program,
    Rows,
    Style,
    need_sql,
    templates,
    transaction,
    trying_again,
)

T = TypeVar("T")
_NO_HEADERS = "{}"
_TIMES = 5
"""How often an event is inserted or looked for that is neither new nor there."""
_KEY = itemgetter(0, 1)
"""The source and the id of an arrival."""


class PostgresInbox:
    """The programs of the inbox on PostgreSQL; texts are rendered once and kept."""

    file = "postgres.sql"
    words: Any = PostgresWords()

    def __init__(self, style: Style, in_transaction: Callable[[], bool] = lambda: False) -> None:
        self._style: Style = style
        self._in_transaction = in_transaction
        self._prepared: dict[Hashable, Prepared] = {}

    def receive(
        self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None
    ) -> Program[list[Received]]:
        """Keep events, each once; when this returns they are durable."""
        new: set[tuple[str, str]] = set()
        asked = arrivals
        for _ in range(_TIMES):
            rows = yield from self._insert(inbox, asked, now)
            if len(rows) == len(arrivals):
                return [Received(key, inbox, duplicate=False) for key in map(_KEY, arrivals)]
            new.update((row[0], row[1]) for row in rows)
            seen = {_KEY(one) for one in asked} - new
            if seen:
                rows = yield from self._lock(inbox, sorted(seen))
                seen.difference_update((row[0], row[1]) for row in rows)
            if not seen:
                return told(inbox, arrivals, new)
            # forgotten since, or never there on the server that a pooler led to now: it is new
            asked = [one for one in asked if _KEY(one) in seen]
        raise CallError(
            f"{inbox}: {len(asked)} events, {_KEY(asked[0])!r} among them, were not inserted and are not there either; "
            f"look for a trigger or a row-level policy on {inbox.table} that drops or hides them"
        )

    def _insert(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[Rows]:
        """Insert those that are not there; they come back."""
        lines = _unless_all_are([one.ordering_key for one in arrivals], None)
        events = arrivals if len(arrivals) == 1 else sorted(arrivals, key=_place if lines else _KEY)
        statement = self._text("inbox.receive", inbox, now).bind(
            {
                "sources": _unless_all_are([one.source for one in events], events[0].source)
                or [events[0].source],
                "event_ids": [one.event_id for one in events],
                "ordering_keys": [one.ordering_key for one in events] if lines else [],
                "bodies": [one.body for one in events],
                "headers": _unless_all_are([_written(one.headers) for one in events], _NO_HEADERS),
                "now": now,
            }
        )
        return (yield from trying_again(statement, alone=not self._in_transaction()))

    def _lock(self, inbox: Inbox, keys: Sequence[tuple[str, str]]) -> Program[Rows]:
        """Lock those that are there, so that they are durable when this is answered; they come back (P8)."""
        sources = [source for source, _ in keys]
        statement = self._text("inbox.duplicates", inbox, None).bind(
            {
                "sources": _unless_all_are(sources, sources[0]) or [sources[0]],
                "event_ids": [event_id for _, event_id in keys],
            }
        )
        return (yield from trying_again(statement, alone=not self._in_transaction()))

    def forget(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]:
        """Delete events that ended long ago; how many it were."""
        rows = yield self._text("inbox.forget", inbox, now).bind(self._values(inbox, now) | {"limit": limit})
        return len(rows)

    def counts(self, inbox: Inbox) -> Program[Rows]:
        """Status, how many, and the oldest."""
        return (yield self._text("inbox.counts", inbox, None).bind({}))

    def listed(self, inbox: Inbox, status: str, limit: int) -> Program[Rows]:
        """Events at a status, the oldest first."""
        return (yield self._text("inbox.list", inbox, None).bind({"status": status, "limit": limit}))

    def _values(self, inbox: Inbox, now: datetime | None) -> dict[str, Any]:
        values = {"keep": -inbox.keep, "now": now}
        return dict(zip(values, self._bindable(tuple(values.values())), strict=True))

    def _bindable(self, values: Any) -> Any:
        return values

    def _now(self, now: datetime | None) -> str:
        return "statement_timestamp()" if now is None else parameter("now") + "::timestamptz"

    def _text(self, name: str, inbox: Inbox, now: datetime | None) -> Prepared:
        key = (name, inbox.table, now is None)
        prepared = self._prepared.get(key)
        if prepared is None:
            moment = self._now(now)
            slots = {
                "table": qualified(inbox.table),
                "now": moment,
                "until": self.words.plus(moment, parameter("keep")),
                "lock": literal(f"{inbox.table}:"),
            }
            prepared = templates("raceproof.inbox", self.file)[name].prepare(slots, self._style)
            self._prepared[key] = prepared
        return prepared


def _place(one: Arrival) -> tuple[str, ...]:
    """Those of a line come first and stay in their order; the others in one that all agree on: nobody waits in a ring."""
    return () if one.ordering_key is not None else _KEY(one)


class SqliteInbox(PostgresInbox):
    """The same on SQLite."""

    file = "sqlite.sql"
    words: Any = SqliteWords()

    def receive(
        self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None
    ) -> Program[list[Received]]:
        """Keep events, each once; when this returns they are durable."""
        lock = self._text("inbox.lock", inbox, None).text
        return (yield from transaction(BEGIN._replace(params=(lock,)), self._receive(inbox, arrivals, now)))

    def _receive(
        self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None
    ) -> Program[list[Received]]:
        text = self._text("inbox.receive", inbox, now)
        new: set[tuple[str, str]] = set()
        (moment,) = self._bindable((now,))
        for one in arrivals:
            rows = yield text.bind(
                {
                    "source": one.source,
                    "event_id": one.event_id,
                    "ordering_key": one.ordering_key,
                    "body": one.body,
                    "headers": _written(one.headers),
                    "now": moment,
                }
            )
            new.update((row[0], row[1]) for row in rows)
        return told(inbox, arrivals, new)

    def _bindable(self, values: Any) -> Any:
        return bindable(values)

    def _now(self, now: datetime | None) -> str:
        return "strftime('%Y-%m-%d %H:%M:%f', 'now')" if now is None else parameter("now")


def _written(headers: Mapping[str, str]) -> str:
    return json.dumps(dict(headers)) if headers else _NO_HEADERS


def _unless_all_are(values: list[T], usual: T) -> list[T]:
    """The values, or none of them where the statement knows them anyway: drivers are slow with each value of an array."""
    return values if values.count(usual) != len(values) else []


def told(inbox: Inbox, arrivals: Sequence[Arrival], new: set[tuple[str, str]]) -> list[Received]:
    """An answer for each; one that was brought twice at once is new the first time."""
    answers = []
    for one in arrivals:
        key = (one.source, one.event_id)
        answers.append(Received(key, inbox, duplicate=key not in new))
        new.discard(key)
    return answers


def inbox_ddl(dialect: str, inbox: Inbox | None = None) -> str:
    """The table of an inbox and its indexes, for the user to create."""
    return "\n".join(inbox_statements(dialect, inbox))


def inbox_statements(dialect: str, inbox: Inbox | None = None) -> list[str]:
    """The same as a list, one statement each."""
    need_sql(dialect)
    name = (inbox or Inbox()).table
    *schema, table = split_qualified(name)
    slots = {"table": qualified(name), "bare_table": identifier(table)}
    for index in ("work", "line", "ended"):
        # an index is where its table is: PostgreSQL says so by the table, SQLite by the index
        parts = (*schema, f"{table}_{index}") if dialect == "sqlite" else (f"{table}_{index}",)
        slots[f"{index}_index"] = ".".join(identifier(part) for part in parts)
    found = templates("raceproof.inbox", f"{dialect}.sql")
    names = ("inbox.table", "inbox.index.work", "inbox.index.line", "inbox.index.ended")
    return [found[name].prepare(slots, "dollar").text for name in names]
