"""Deliveries, attempts, leases and inboxes."""

from collections import Counter
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from raceproof.attempts import Attempts
from raceproof.declare.spec import Spec
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import is_of_tenant
from raceproof.ops.inspect import current_attempt
from raceproof.ops.web.pages.stuck import delivery_url
from raceproof.ops.web.pictures import bands
from raceproof.ops.web.queries.attempts import attempts as attempts_of
from raceproof.ops.web.queries.deliveries import deliveries as deliveries_of
from raceproof.ops.web.queries.inboxes import inbox as inbox_of
from raceproof.ops.web.queries.leases import leaders
from raceproof.ops.web.queries.statements import typed
from raceproof.ops.web.visit import Visit
from raceproof.store import AsyncStore

_SPANS = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1), "6h": timedelta(hours=6)}
_PREVENTED = ("sending", "delivered", "reserved", "uncertain")


async def delivery(visit: Visit) -> Response:
    only = visit.asked("of")
    found = []
    for name, one in visit.catalog.deliveries.items():
        if only in (None, name):
            reply = await visit.ask_shared(name, deliveries_of, one)
            asked: Counter[str] = Counter()
            won: Counter[str] = Counter()
            for (delivered, by, outcome), number in visit.board.feed.senders.items():
                if delivered == one.name:
                    (won if outcome == "won" else asked)[by] += number
            found.append((name, one, reply, won, asked))
    return visit.page("delivery.html", found=found, row_url=lambda one, parts: delivery_url(visit, one, parts))


async def attempts(visit: Visit) -> Response:
    owner = visit.asked("owner")
    found = []
    for name, one in visit.catalog.attempts.items():
        reply = await visit.ask_shared(name, attempts_of, one, visit.now.timestamp())
        mine = await visit.ask(_of_owner, one, owner) if owner else None
        found.append((name, one, reply, mine))
    return visit.page("attempts.html", found=found, owner=owner, row_parts=_parts)


def _parts(spec: Spec[Any], row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(column) for column in spec.key_columns)


def _of_owner(store: AsyncStore, asked: Attempts, owner: str) -> Program[dict[str, Any] | None]:
    """The active attempt of an owner, which is found on every store."""
    try:
        (key,) = yield from typed(store, asked.lifecycle.table, (asked.owner,), (owner,))
    except ValueError:
        return None
    # where the owner is the tenant, asking for another owner is asking for another tenant's row
    if asked.lifecycle.tenant == asked.owner and not is_of_tenant(asked.owner, (key,), store.tenant):
        return None
    return (yield from current_attempt(store, asked, key))


async def leader(visit: Visit) -> Response:
    word = visit.asked("span") or "5m"
    span = _SPANS.get(word, _SPANS["5m"])
    reply = await visit.ask(leaders, tuple(visit.catalog.leases.values()))
    visit.board.watch.see(reply.value or (), visit.now)
    lanes = {
        one.name: bands(found, span, visit.now)
        if (found := visit.board.watch.bands(one.name, span, visit.now))
        else None
        for one in reply.value or ()
    }
    seen = [one for one in reversed(list(visit.board.feed.recent)) if one.event.operation == "lease"]
    return visit.page("leader.html", leaders=reply, lanes=lanes, span=word, spans=list(_SPANS), seen=seen[:30])


async def inbox(visit: Visit) -> Response:
    found = []
    for name, box in visit.catalog.inboxes.items():
        reply = await visit.ask_shared(name, inbox_of, box)
        found.append((name, box, reply))
    counts: Counter[str] = Counter()
    for (operation, _, _, outcome), number in visit.board.feed.counts.items():
        if operation == "receive":
            counts[outcome] += number
    answered = sorted(visit.board.feed.answer_seconds)
    return visit.page(
        "inbox.html",
        found=found,
        received=counts,
        half=answered[len(answered) // 2] if answered else None,
        kept=len(answered),
        most=answered[int(len(answered) * 0.95)] if answered else None,
    )
