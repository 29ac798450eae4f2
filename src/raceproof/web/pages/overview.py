"""The first page: all lifecycles and what needs attention; and finding a row by its key."""

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from raceproof.look import read as read_by_key
from raceproof.moves.tenants import is_of_tenant
from raceproof.spec import Spec
from raceproof.statement import Program
from raceproof.store import AsyncStore
from raceproof.web.here import Here, Told
from raceproof.web.looking.leases import leaders
from raceproof.web.looking.ledger import Decision, Rate, ledger, rates
from raceproof.web.looking.rows import Counts, counts
from raceproof.web.looking.texts import typed, user_key
from raceproof.web.pages.work import stuck_things

_RACES = 12


@dataclass(frozen=True, slots=True)
class Card:
    """A lifecycle at a glance."""

    name: str
    spec: Spec[Any]
    counts: Told[Counts]
    made: float
    """Moves in a minute."""
    refused: int


async def overview(here: Here) -> Response:
    seen = await rates_of(here)
    cards = []
    for name, spec in here.catalog.lifecycles.items():
        mine = {key: rate for key, rate in seen.items() if key[0] == spec.name}
        cards.append(
            Card(
                name,
                spec,
                await here.ask_shared(name, counts, spec),
                sum(rate.per_minute for key, rate in mine.items() if key[2] == "moved"),
                sum(rate.number for key, rate in mine.items() if key[2] in ("refused", "lost")),
            )
        )
    lease = await here.ask_shared("all", leaders, tuple(here.catalog.leases.values()))
    return here.page(
        "overview.html",
        cards=cards,
        stuck=await stuck_things(here),
        leaders=lease,
        races=await last_races(here, _RACES),
        seen=list(reversed(list(here.board.feed.recent)))[:_RACES],
    )


async def rates_of(here: Here) -> dict[tuple[str, str, str], Rate]:
    """For each lifecycle, move and outcome; from the histories, or, where there are none, from what this process saw."""
    told = await here.ask_shared("all", _rates, tuple(here.catalog.histories))
    found = dict(told.value or {})
    minutes = max((here.now - here.board.feed.began).total_seconds() / 60, 1 / 60)
    known = {key[0] for key in found}
    for (operation, lifecycle, move, outcome), number in here.board.feed.counts.items():
        if operation == "move" and lifecycle not in known:
            found[lifecycle, move, outcome] = Rate(number, number / minutes, here.now)
    return found


async def last_races(here: Here, number: int) -> list[Decision]:
    """The newest decisions of all histories."""
    return (await here.ask_shared(number, _races, here.catalog.histories, number)).value or []


def _rates(store: AsyncStore, tables: tuple[str, ...]) -> Program[dict[tuple[str, str, str], Rate]]:
    found: dict[tuple[str, str, str], Rate] = {}
    if store.dialect != "redis":
        for table in tables:
            found |= yield from rates(store, table)
    return found


def _races(store: AsyncStore, histories: dict[str, list[str]], number: int) -> Program[list[Decision]]:
    found: list[Decision] = []
    if store.dialect != "redis":
        for table, names in histories.items():
            found += (yield from ledger(store, table, names, limit=number)).decisions
    return sorted(found, key=lambda one: one.entry.at, reverse=True)[:number]


async def find(here: Here) -> Response:
    """A row by its key, in whichever lifecycle it is; parts of a key are separated by commas."""
    text = (here.asked("q") or "").strip()[:500]
    found: list[tuple[str, Spec[Any], tuple[str, ...], str]] = []
    for name, spec in here.catalog.lifecycles.items() if text else ():
        parts = tuple(part.strip() for part in text.split(",", len(spec.key_columns) - 1))
        if len(parts) == len(spec.key_columns):
            row = await read_row(here, spec, parts)
            if row.value:
                found.append((name, spec, parts, str(row.value.get(spec.column))))
    if len(found) == 1:
        return here.back(here.item(found[0][1], found[0][2]))
    return here.page("find.html", 200 if found or not text else 404, text=text, found=found)


async def read_row(here: Here, spec: Spec[Any], parts: tuple[str, ...]) -> Told[dict[str, Any] | None]:
    """The row with this key, if the one who looks may see it; nothing where there is none."""

    def read(store: AsyncStore) -> Program[dict[str, Any] | None]:
        try:
            key = yield from typed(store, spec.table, spec.key_columns, parts)
        except ValueError:
            return None
        if not is_of_tenant(spec.tenant, key, store._tenant):
            return None
        tenant = key[0] if spec.tenant else None
        return (yield from read_by_key(store._driver.moves, spec, user_key(spec, key), tenant))

    return await here.ask(read)
