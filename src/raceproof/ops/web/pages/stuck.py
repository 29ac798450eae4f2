"""Who holds what, and what does not go on by itself."""

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
from raceproof.ops.web.visit import Here

_THEN = {"resend": "the next try sends again", "probe": "the next try asks first", "hold": "it is held for a person"}


@dataclass(frozen=True, slots=True)
class Stuck:
    """One thing that does not go on, why, and what leads on from there."""

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
    """All that was found, and what could not be looked at."""

    things: list[Stuck]
    notes: list[str]
    more: bool = False
    """There may be others: a look ended at its bound, or could not be made."""

    @property
    def number(self) -> Count:
        return Count(len(self.things), more=self.more)


async def claims(here: Here) -> Response:
    found = [
        (name, claim, await here.ask_shared(name, claims_of, claim)) for name, claim in here.catalog.claims.items()
    ]
    only = here.asked("only")
    return here.page("claims.html", found=found, only=only)


async def stuck(here: Here) -> Response:
    return here.page("stuck.html", stuck=await stuck_things(here))


async def stuck_things(here: Here) -> StuckThings:
    """Rows whose lease is over or that are out of attempts, uncertain deliveries, overdue attempts, dead events."""
    things: list[Stuck] = []
    notes: list[str] = []
    more = False
    for name, claim in here.catalog.claims.items():
        told = await here.ask_shared(name, claims_of, claim)
        if told.value is None:
            notes.append(f"{name}: {told.trouble}")
            continue
        things += [_claimed(here, name, claim, one) for one in (*told.value.spent, *told.value.stale)]
        more = more or told.value.more
        if told.value.note:
            notes.append(f"{name}: {told.value.note}")
    for look in (_uncertain, _overdue, _dead):
        more = await look(here, things, notes) or more
    things.sort(key=lambda one: (one.since is None, one.since.timestamp() if one.since else 0.0))
    return StuckThings(things, notes, more=more or bool(notes))


def _claimed(here: Here, name: str, claim: Claimable[Any], one: Held) -> Stuck:
    spec = claim.lifecycle
    if one.spent:
        exit_ = (
            f"a sweep sets it aside at {claim.dead_letter.target}" if claim.dead_letter else "no way out is declared"
        )
        why = f"out of attempts ({one.attempts}); {exit_}"
    else:
        why = "the lease is over; the next claim takes it"
    return Stuck(
        name, key_text(one.parts), here.item(spec, one.parts), why, one.until, one.status, one.holder,
        _exits(spec, one.status, claim),
    )  # fmt: skip


def _exits(spec: Spec[Any], status: str, claim: Claimable[Any] | None = None) -> tuple[str, ...]:
    """The legal moves from there, but for the one that a claim makes."""
    own = claim.move.name if claim and claim.move else None
    return tuple(f"{name} → {spec.moves[name].target}" for name in spec.moves_from.get(status, ()) if name != own)


async def _uncertain(here: Here, things: list[Stuck], notes: list[str]) -> bool:
    """Whether there may be more of them."""
    more = False
    for name, delivery in here.catalog.deliveries.items():
        told = await here.ask_shared(name, deliveries_of, delivery)
        if told.value is None:
            notes.append(f"{name}: {told.trouble}")
            continue
        more = more or told.value.more
        for one in told.value.uncertain:
            things.append(
                Stuck(
                    name, key_text(one.parts), delivery_url(here, delivery, one.parts),
                    f"nobody knows whether it arrived; {_THEN[delivery.policy]}", one.since, one.state, one.holder,
                    ("say that it arrived", "say that it did not"),
                )
            )  # fmt: skip
    return more


def delivery_url(here: Here, delivery: Delivery, parts: tuple[Any, ...]) -> str:
    """The page of the row, or, where no lifecycle has it, the page of its deliveries."""
    spec = here.catalog.spec_of_table(delivery.table)
    if spec is not None and spec.key_columns == delivery.key_columns:
        return here.item(spec, parts)
    return here.url("/delivery", of=delivery.name)


async def _overdue(here: Here, things: list[Stuck], notes: list[str]) -> bool:
    """Whether there may be more of them."""
    more = False
    for name, asked in here.catalog.attempts.items():
        if asked.ttl is None:
            continue
        told = await here.ask_shared(name, attempts_of, asked, here.now.timestamp())
        if told.value is None:
            notes.append(f"{name}: {told.trouble}")
            continue
        more = more or told.value.more
        for one in told.value.attempts:
            if one.overdue:
                spec = asked.lifecycle
                then = f"a sweep makes {asked.expire.name}" if asked.expire else "the next attempt ends it"
                why = f"its time is over; {then}"
                things.append(
                    Stuck(
                        name, key_text(one.parts), here.item(spec, one.parts), why, one.started, one.status,
                        str(one.owner), _exits(spec, one.status),
                    )
                )  # fmt: skip
    return more


async def _dead(here: Here, things: list[Stuck], notes: list[str]) -> bool:
    """Whether there may be more of them."""
    more = False
    for name, box in here.catalog.inboxes.items():
        told = await here.ask_shared(name, inbox_of, box)
        if told.value is None:
            notes.append(f"{name}: {told.trouble}")
            continue
        more = more or told.value.more
        for one in told.value.dead:
            url = here.item(box.lifecycle, (one.source, one.event_id))
            why = f"dead after {one.attempts} attempts"
            key = key_text((one.source, one.event_id))
            things.append(Stuck(name, key, url, why, one.other, one.status, one.holder, ("revive → received",)))
    return more
