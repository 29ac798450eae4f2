"""The steps of a sweep, each bounded and committed by itself."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack, overload

from raceproof.attempts import Attempts
from raceproof.claims.redis_index import index_key, line_key
from raceproof.claims.request import claim_request
from raceproof.declare.lifecycle import Lifecycle, spec_of
from raceproof.declare.spec import Claimable, Spec
from raceproof.inbox import Inbox
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_text
from raceproof.kernel.quoting import literal, parameter, qualified
from raceproof.kernel.redis import parts_of_text, text_of
from raceproof.kernel.statement import Program, Rows, Statement
from raceproof.kernel.tenants import entry_of_tenant, history_start
from raceproof.moves.request import request
from raceproof.ops.inspect import Steps, programs_of, redis_clock, run_steps, scan, searchable, sql_of, statement
from raceproof.ops.sweep.search import overdue, spent_rows, sweep_texts, unsearchable
from raceproof.store import AsyncStore, Store

Sweepable = type[Lifecycle[Any]] | Spec[Any] | Claimable[Any] | Attempts | Inbox
Work = Literal[
    "dead-lettered", "stale, left", "expired", "expired, left", "not looked at", "forgotten", "history", "offered"
]


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep has done so far for one target, or, in a dry run, would do."""

    target: str
    work: Work
    number: int
    more: bool = False
    """There may be more of them than were counted."""


class SweepOptions(TypedDict, total=False):
    """How to sweep."""

    keep: float | None
    """Seconds: older history is deleted; none by default."""
    batch: int
    """Rows per step; 1000 by default."""
    dry_run: bool
    """Count, and change nothing."""
    by: str | None
    """Who sweeps, for the history of the rows that are moved."""
    now: datetime | None
    """The time to use, for tests; the store's clock otherwise."""
    tell: Callable[[Swept], None] | None
    """Called after every step."""


@overload
def sweep(store: Store, *targets: Sweepable, **options: Unpack[SweepOptions]) -> list[Swept]: ...
@overload
def sweep(store: AsyncStore, *targets: Sweepable, **options: Unpack[SweepOptions]) -> Awaitable[list[Swept]]: ...


def sweep(store: Store | AsyncStore, *targets: Sweepable, **options: Unpack[SweepOptions]) -> Any:
    """Dead-letter rows that are out of attempts, end overdue attempts, forget old events and old history.

    On an AsyncStore, await it.
    """
    return run_steps(store, Sweep(store, options).all(targets))


class Sweep:
    """The steps of one sweep: each is a program of its own."""

    def __init__(self, store: Store | AsyncStore, options: SweepOptions) -> None:
        if unknown := sorted(set(options) - set(SweepOptions.__annotations__)):
            # a dry run that is misspelt would be a real one
            known = ", ".join(SweepOptions.__annotations__)
            raise CallError(f"unknown option {', '.join(unknown)} of sweep; expected {known}")
        self._store = store
        self._programs = programs_of(store)
        self._tenant = store.tenant
        self._keep = options.get("keep")
        self._batch = options.get("batch", 1000)
        self._dry = options.get("dry_run", False)
        self._by = options.get("by") or "sweep"
        self._now = options.get("now")
        self._tell = options.get("tell") or (lambda _: None)
        if self._batch < 1 or (self._keep is not None and not 0 < self._keep < math.inf):
            raise CallError(
                f"batch must be at least 1 and keep a positive number of seconds, got batch={self._batch}, keep={self._keep}"
            )

    def all(self, targets: Sequence[Sweepable]) -> Steps[list[Swept]]:
        found: list[Swept] = []
        for target in targets:
            match target:
                case Claimable():
                    found += yield from self._claim(target, str(target))
                case Attempts():
                    found += yield from self._expired(target)
                case Inbox():
                    found += yield from self._claim(target.work, f"{target}")
                    found += yield from self._forgotten(target)
                case _:
                    spec = spec_of(target)
                    for claim in spec.claims.values():
                        found += yield from self._claim(claim, str(claim))
                    if spec.history and self._keep is not None:
                        found += yield from self._history(spec, self._keep)
        return found

    def _report(self, target: str, work: Work, number: int, more: bool = False) -> Swept:
        swept = Swept(target, work, number, more)
        self._tell(swept)
        return swept

    # Claims

    def _claim(self, claim: Claimable[Any], name: str) -> Steps[list[Swept]]:
        found = []
        if self._store.dialect == "redis":
            found.append((yield from self._offered(claim, name)))
        if claim.dead_letter is not None:
            found.append((yield from self._dead_letter(claim, name)))
        asked = claim_request(claim, limit=self._batch, tenant=self._tenant, now=self._now)
        rows: Rows = yield self._programs.claims.listed(asked)
        stale = sum(bool(row[1]) for row in rows)
        found.append(self._report(name, "stale, left", stale, more=stale == self._batch))
        return found

    def _dead_letter(self, claim: Claimable[Any], name: str) -> Steps[Swept]:
        if self._dry:
            rows = yield spent_rows(self._store, claim, self._batch, self._now)
            return self._report(name, "dead-lettered", len(rows), more=len(rows) == self._batch)
        number = 0
        while True:
            asked = claim_request(claim, limit=self._batch, by=self._by, tenant=self._tenant, now=self._now)
            started = time.monotonic()
            moved = yield self._programs.claims.dead_letter(asked)
            self._store.tell_all("sweep", moved, self._by, started)
            number += len(moved)
            swept = self._report(name, "dead-lettered", number)
            if not moved:
                return swept

    def _offered(self, claim: Claimable[Any], name: str) -> Steps[Swept]:
        """Redis: waiting rows that no claim finds, because they are missing from the index."""
        searchable(self._store, claim)
        cursor, number = "0", 0
        while True:
            cursor, members = yield scan(claim.lifecycle, self._tenant, cursor)
            lost = yield self.missing(claim, members)
            if lost and not self._dry:
                parts = [parts_of_text(claim.lifecycle, member) for member in lost]
                yield self._programs.claims.offer(claim, parts)
            number += len(lost)
            swept = self._report(name, "offered", number)
            if cursor == "0":
                return swept

    def missing(self, claim: Claimable[Any], members: Sequence[str]) -> Program[list[str]]:
        """The open rows among these that are neither in the index nor behind another row of their ordering key."""
        spec = claim.lifecycle
        if not members:
            return []
        (scores,) = yield Statement("sweep.indexed", "ZMSCORE", (index_key(claim), *members))
        lost = []
        for member in (member for member, score in zip(members, scores, strict=True) if score is None):
            row = searchable(self._store, claim).row_of_text(spec, member)
            fields = (spec.column, claim.attempts or spec.column, claim.ordering_key or spec.column)
            (values,) = yield Statement("sweep.row", "HMGET", (row, *fields))
            status, attempts, ordering_key = map(text_of, values)
            if status not in claim.open:
                continue
            if (
                claim.max_attempts is not None
                and claim.dead_letter is None
                and int(attempts or 0) >= claim.max_attempts
            ):
                continue  # it cannot be claimed again
            if claim.ordering_key:
                line = line_key(claim, ordering_key, member)
                (place,) = yield Statement("sweep.line", "ZRANK", (line, member))
                if place and (yield from self._moves_up(claim, line)):
                    continue
            lost.append(member)
        return lost

    def _moves_up(self, claim: Claimable[Any], line: str) -> Program[bool]:
        """Whether the rows behind the first of an ordering key will follow: not if the first is gone."""
        (head,) = yield Statement("sweep.line", "ZRANGE", (line, 0, 0))
        if not head:
            return False  # all have left in the meantime; an offer checks again
        row = searchable(self._store, claim).row_of_text(claim.lifecycle, text_of(head[0]))
        (status,) = yield Statement("sweep.first", "HGET", (row, claim.lifecycle.column))
        return text_of(status) in claim.open

    # Attempts

    def _expired(self, attempts: Attempts) -> Steps[list[Swept]]:
        move, name = attempts.expire, str(attempts)
        if unsearchable(self._store, attempts):
            return [self._report(name, "not looked at", 0)]
        if move is None or self._dry:
            rows = yield overdue(self._store, attempts, self._batch, self._now)
            work: Work = "expired, left" if move is None else "expired"
            return [self._report(name, work, len(rows), more=len(rows) == self._batch)]
        number = 0
        refused: set[str] = set()
        while True:
            # rows that cannot move are found every time: skip them
            rows = yield overdue(self._store, attempts, self._batch + len(refused), self._now)
            fresh = [row for row in rows if key_text(tuple(row)) not in refused]
            if not fresh:
                return [
                    self._report(name, "expired", number),
                    *([self._report(name, "expired, left", len(refused))] if refused else []),
                ]
            spec = attempts.lifecycle
            asked = []
            for row in fresh:
                tenant, own = (row[0], row[1:]) if spec.tenant else (None, row)
                key = tuple(own) if len(own) > 1 else own[0]
                asked.append(request(move, key, tenant=tenant, by=self._by, now=self._now))
            started = time.monotonic()
            answers = yield self._programs.moves.many(asked)
            self._store.tell_all("sweep", answers, self._by, started, (one.parts[0] for one in asked))
            refused |= {key_text(tuple(row)) for row, answer in zip(fresh, answers, strict=True) if not answer.won}
            number += sum(answer.won for answer in answers)
            self._report(name, "expired", number)

    # Inbox and history

    def _forgotten(self, inbox: Inbox) -> Steps[list[Swept]]:
        if self._store.dialect == "redis":
            return []  # an event that has ended is forgotten by Redis itself
        if self._dry:
            number = yield self._counted(inbox)
            return [self._report(str(inbox), "forgotten", number)]
        number = 0
        while True:
            gone = yield self._programs.inbox.forget(inbox, self._batch, self._now)
            number += gone
            swept = self._report(str(inbox), "forgotten", number)
            if not gone:
                return [swept]

    def _counted(self, inbox: Inbox) -> Program[int]:
        slots = {"table": qualified(inbox.table), "until": self._until()}
        rows = yield self._bound("inbox.ended", slots, keep=-inbox.keep)
        return int(rows[0][0])

    def _history(self, spec: Spec[Any], keep: float) -> Steps[list[Swept]]:
        if self._store.dialect == "redis":
            return [(yield from self._trimmed(spec, keep))]
        assert spec.history is not None
        slots = {"history": qualified(spec.history.table), "until": self._until(), "mine": self._mine(spec)}
        start = history_start(self._tenant if spec.tenant else None)
        values = {"keep": -keep, "limit": self._batch, "tenant_text": start, "last": 0}
        number = 0
        while True:
            ((end, rows, old, mine),) = yield self._page("history.page", slots, values)
            if mine and not self._dry:
                yield self._page("history.forget", slots, {**values, "end": end})
            number += mine
            swept = self._report(str(spec), "history", number)
            # the history grows in the order of its ids: after a page without an old row there is none
            if not rows or not old:
                return [swept]
            values["last"] = end

    def _page(self, name: str, slots: dict[str, str], values: dict[str, Any]) -> Program[Rows]:
        return (yield self._bound(name, slots, **values))

    def _mine(self, spec: Spec[Any]) -> str:
        """The rows of the lifecycle; of a table with tenants, those of the store's tenant."""
        of_tenant = entry_of_tenant(self._tenant if spec.tenant else None)
        return " AND ".join(filter(None, (f"h.lifecycle = {literal(spec.name)}", of_tenant)))

    def _trimmed(self, spec: Spec[Any], keep: float) -> Steps[Swept]:
        """Redis: the history of a row is a stream of its own."""
        searchable(self._store, spec)
        cursor, number = "0", 0
        while True:
            cursor, members = yield scan(spec, self._tenant, cursor, "/history", "stream")
            number += yield self._trim(spec, members, keep)
            swept = self._report(str(spec), "history", number)
            if cursor == "0":
                return swept

    def _trim(self, spec: Spec[Any], members: Sequence[str], keep: float) -> Program[int]:
        now = yield from redis_clock(self._now)
        oldest = f"{max(0, int((now - keep) * 1000))}"
        number = 0
        for member in members:
            stream = searchable(self._store, spec).history_of_text(spec, member)
            if self._dry:
                (entries,) = yield Statement("sweep.old", "XRANGE", (stream, "-", f"({oldest}"))
                number += len(entries)
            else:
                replies: Sequence[Any] = yield Statement("sweep.trim", "XTRIM", (stream, "MINID", oldest))
                number += int(replies[0])
        return number

    # Texts

    def _until(self) -> str:
        dialect = sql_of(self._store)
        return dialect.plus(dialect.now(self._now), parameter("keep"))

    def _bound(self, name: str, slots: dict[str, str], **values: Any) -> Statement:
        given = {**values, "now": self._now}
        return statement(self._store, sweep_texts(self._store), name, slots, given)
