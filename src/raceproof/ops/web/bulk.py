"""Bulk moves in three steps: freeze a plan with the revision of each row, review it, apply it once.

Promise: a row that has changed since is left alone, and the report says so. Plans live in this process for a while.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from raceproof.declare.predicate import column
from raceproof.declare.spec import Move, Spec
from raceproof.declare.statuses import text_of_status
from raceproof.moves.answers import Refused
from raceproof.ops.explain import explain
from raceproof.ops.web.queries.statements import user_key
from raceproof.store import AsyncStore

MOST_ROWS = 1_000
_MOST_PLANS = 50
_SECONDS = 1800.0
_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Planned:
    """One row as it was when the plan was frozen, and the predicted outcome of the move."""

    parts: tuple[Any, ...]
    status: str | None
    revision: int | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Result:
    parts: tuple[Any, ...]
    before: str | None
    outcome: str
    detail: str


@dataclass(slots=True)
class Plan:
    """Which rows, which move, by whom and why; and the results once it is applied."""

    id: str
    actor: str
    lifecycle: str
    move: Move[Any]
    reason: str
    set: Mapping[str, str]
    rows: Sequence[Planned]
    made: datetime
    ends: float
    left_out: int = 0
    applying: bool = False
    results: list[Result] = field(default_factory=list)
    done: bool = False

    @property
    def possible(self) -> list[Planned]:
        return [one for one in self.rows if one.verdict in ("possible", "depends")]

    @property
    def tenant(self) -> Any:
        """The tenant of the rows, if all have the same."""
        owners = {row.parts[0] for row in self.rows} if self.move.lifecycle.tenant else set()
        return owners.pop() if len(owners) == 1 else None

    @property
    def summary(self) -> Counter[str]:
        return Counter(one.outcome for one in self.results)

    @property
    def foreseen(self) -> Counter[str]:
        return Counter(one.verdict for one in self.rows)


class Plans:
    """The plans of this process, the newest ones."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}

    def find(self, number: str) -> Plan | None:
        found = self._plans.get(number)
        return found if found and found.ends > time.monotonic() else None

    def keep(self, plan: Plan) -> Plan:
        now = time.monotonic()
        self._plans = {number: one for number, one in self._plans.items() if one.ends > now}
        while len(self._plans) >= _MOST_PLANS:
            self._plans.pop(next(iter(self._plans)))
        self._plans[plan.id] = plan
        return plan

    def all(self) -> list[Plan]:
        """The plans that have not expired, newest first."""
        now = time.monotonic()
        return [one for one in reversed(self._plans.values()) if one.ends > now]


async def freeze(
    store: AsyncStore,
    lifecycle: str,
    move: Move[Any],
    keys: Sequence[tuple[Any, ...]],
    actor: str,
    reason: str,
    columns: Mapping[str, str],
) -> Plan:
    """Read each row and its revision; nothing is written."""
    spec = move.lifecycle
    wanted = list(dict.fromkeys(keys))
    rows = [await _planned(store, spec, move, parts) for parts in wanted[:MOST_ROWS]]
    return Plan(
        secrets.token_urlsafe(12), actor, lifecycle, move, reason, columns, rows, datetime.now(UTC),
        time.monotonic() + _SECONDS, len(wanted) - len(rows),
    )  # fmt: skip


async def _planned(store: AsyncStore, spec: Spec[Any], move: Move[Any], parts: tuple[Any, ...]) -> Planned:
    key = user_key(spec, parts)
    row = await _of(store, spec, parts).read(spec, key)
    found = explain(spec, row, move, key=key)
    revision = row.get(spec.revision) if row and spec.revision else None
    return Planned(parts, found.status, None if revision is None else int(revision), found.verdict)


async def apply(store: AsyncStore, plan: Plan) -> None:
    """Move each row that has not changed since; the plan keeps the results."""
    plan.applying = True
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(row: Planned) -> Result:
        async with places:
            return await _applied(store, plan, row)

    plan.results = list(await asyncio.gather(*(one(row) for row in plan.possible)))
    plan.done = True


async def _applied(store: AsyncStore, plan: Plan, row: Planned) -> Result:
    move, spec = plan.move, plan.move.lifecycle
    # a lifecycle without revisions: at least the status must be the one that was looked at
    same = () if row.revision is not None or row.status is None else (column(spec.column) == row.status,)
    try:
        answer = await _of(store, spec, row.parts).move(
            move,
            user_key(spec, row.parts),
            set=plan.set or None,
            by=plan.actor,
            reason=plan.reason,
            revision=row.revision,
            where=same,
        )
    except Exception as error:
        return Result(row.parts, row.status, "error", type(error).__name__)
    if isinstance(answer, Refused) and (answer.revision != row.revision or text_of_status(answer.status) != row.status):
        return Result(row.parts, row.status, "changed since", f"now at {text_of_status(answer.status)}, left alone")
    return Result(row.parts, row.status, answer.outcome, str(answer))


def _of(store: AsyncStore, spec: Spec[Any], parts: tuple[Any, ...]) -> AsyncStore:
    return store.for_tenant(parts[0]) if spec.tenant else store
