"""Who holds which rows, and work that needs attention."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.ops.web.filters import key_text
from raceproof.ops.web.queries.attempts import attempts as attempts_of
from raceproof.ops.web.queries.claims import Held
from raceproof.ops.web.queries.claims import claims as claims_of
from raceproof.ops.web.queries.deliveries import deliveries as deliveries_of
from raceproof.ops.web.queries.inboxes import inbox as inbox_of
from raceproof.ops.web.queries.rows import Count
from raceproof.ops.web.visit import Visit

_NEXT_TRY = {"resend": "the next try resends", "probe": "the next try probes first", "hold": "waiting for an operator"}


@dataclass(frozen=True, slots=True)
class Stuck:
    """One stuck row or event, the reason, and the legal moves."""

    target: str
    key: str
    url: str | None
    why: str
    since: datetime | None
    status: str
    holder: str | None
    exits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StuckThings:
    """What was found, and what could not be read."""

    things: list[Stuck]
    notes: list[str]
    more: bool = False
    """There may be others: a read reached its limit, or failed."""

    @property
    def number(self) -> Count:
        return Count(len(self.things), more=self.more)


async def claims(visit: Visit) -> Response:
    found = [
        (name, claim, await visit.ask_shared(name, claims_of, claim)) for name, claim in visit.catalog.claims.items()
    ]
    only = visit.asked("only")
    return visit.page("claims.html", found=found, only=only)


async def stuck(visit: Visit) -> Response:
    return visit.page("stuck.html", stuck=await stuck_things(visit))


async def stuck_things(visit: Visit) -> StuckThings:
    """Expired leases, rows out of attempts, uncertain deliveries, overdue attempts, dead events."""
    things: list[Stuck] = []
    notes: list[str] = []
    more = False
    for name, claim in visit.catalog.claims.items():
        reply = await visit.ask_shared(name, claims_of, claim)
        if reply.value is None:
            notes.append(f"{name}: {reply.trouble}")
            continue
        things += [_claimed(visit, name, claim, one) for one in (*reply.value.spent, *reply.value.stale)]
        more = more or reply.value.more
        if reply.value.note:
            notes.append(f"{name}: {reply.value.note}")
    for look in (_uncertain, _overdue, _dead):
        more = await look(visit, things, notes) or more
    things.sort(key=lambda one: (one.since is None, one.since.timestamp() if one.since else 0.0))
    return StuckThings(things, notes, more=more or bool(notes))


def _claimed(visit: Visit, name: str, claim: Claimable[Any], one: Held) -> Stuck:
    spec = claim.lifecycle
    if one.spent:
        exit_ = (
            f"a sweep dead-letters it at {claim.dead_letter.target}"
            if claim.dead_letter
            else "no dead_letter= is declared"
        )
        why = f"out of attempts ({one.attempts}); {exit_}"
    else:
        why = "its lease has expired; the next claim takes it"
    return Stuck(
        name, key_text(one.parts), visit.item(spec, one.parts), why, one.until, one.status, one.holder,
        _exits(spec, one.status, claim),
    )  # fmt: skip


def _exits(spec: Spec[Any], status: str, claim: Claimable[Any] | None = None) -> tuple[str, ...]:
    """The legal moves from a status, except the one that the claim makes."""
    own = claim.move.name if claim and claim.move else None
    return tuple(f"{name} → {spec.moves[name].target}" for name in spec.moves_from.get(status, ()) if name != own)


async def _uncertain(visit: Visit, things: list[Stuck], notes: list[str]) -> bool:
    """Whether there may be more of them."""
    more = False
    for name, delivery in visit.catalog.deliveries.items():
        reply = await visit.ask_shared(name, deliveries_of, delivery)
        if reply.value is None:
            notes.append(f"{name}: {reply.trouble}")
            continue
        more = more or reply.value.more
        for one in reply.value.uncertain:
            things.append(
                Stuck(
                    name, key_text(one.parts), delivery_url(visit, delivery, one.parts),
                    f"outcome unknown; {_NEXT_TRY[delivery.policy]}", one.since, one.state, one.holder,
                    ("resolve: arrived", "resolve: not arrived"),
                )
            )  # fmt: skip
    return more


def delivery_url(visit: Visit, delivery: Delivery, parts: tuple[Any, ...]) -> str:
    """The page of the row, or, where no lifecycle has it, the page of its deliveries."""
    spec = visit.catalog.spec_of_table(delivery.table)
    if spec is not None and spec.key_columns == delivery.key_columns:
        return visit.item(spec, parts)
    return visit.url("/delivery", of=delivery.name)


async def _overdue(visit: Visit, things: list[Stuck], notes: list[str]) -> bool:
    """Whether there may be more of them."""
    more = False
    for name, asked in visit.catalog.attempts.items():
        if asked.ttl is None:
            continue
        reply = await visit.ask_shared(name, attempts_of, asked, visit.now.timestamp())
        if reply.value is None:
            notes.append(f"{name}: {reply.trouble}")
            continue
        more = more or reply.value.more
        for one in reply.value.attempts:
            if one.overdue:
                spec = asked.lifecycle
                then = f"a sweep makes move {asked.expire.name}" if asked.expire else "the next attempt ends it"
                why = f"overdue; {then}"
                things.append(
                    Stuck(
                        name, key_text(one.parts), visit.item(spec, one.parts), why, one.started, one.status,
                        str(one.owner), _exits(spec, one.status),
                    )
                )  # fmt: skip
    return more


async def _dead(visit: Visit, things: list[Stuck], notes: list[str]) -> bool:
    """Whether there may be more of them."""
    more = False
    for name, box in visit.catalog.inboxes.items():
        reply = await visit.ask_shared(name, inbox_of, box)
        if reply.value is None:
            notes.append(f"{name}: {reply.trouble}")
            continue
        more = more or reply.value.more
        for one in reply.value.dead:
            url = visit.item(box.lifecycle, (one.source, one.event_id))
            why = f"dead after {one.attempts} attempts"
            key = key_text((one.source, one.event_id))
            things.append(Stuck(name, key, url, why, one.other, one.status, one.holder, ("revive → received",)))
    return more
