"""The first page: all lifecycles and what needs attention; and finding a row by its key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.responses import Response

from raceproof.declare.spec import Spec
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import is_of_tenant
from raceproof.moves.reading import read as read_by_key
from raceproof.ops.inspect import programs_of
from raceproof.ops.web.pages.rates import Known, known_of
from raceproof.ops.web.pages.stuck import stuck_things
from raceproof.ops.web.queries.leases import leaders
from raceproof.ops.web.queries.ledger import Decision, ledger
from raceproof.ops.web.queries.rates import MINUTE
from raceproof.ops.web.queries.rows import Count, Counts, counts
from raceproof.ops.web.queries.statements import typed, user_key
from raceproof.ops.web.visit import Reply, Visit
from raceproof.store import AsyncStore

_RACES = 12


@dataclass(frozen=True, slots=True)
class Card:
    """A lifecycle at a glance."""

    name: str
    spec: Spec[Any]
    counts: Reply[Counts]
    known: Known


class Tile(NamedTuple):
    """A number, and what was counted."""

    number: str
    what: str


async def overview(visit: Visit) -> Response:
    known = await known_of(visit)
    cards = [
        Card(name, spec, await visit.ask_shared(name, counts, spec), known[spec.name])
        for name, spec in visit.catalog.lifecycles.items()
    ]
    lease = await visit.ask_shared("all", leaders, tuple(visit.catalog.leases.values()))
    return visit.page(
        "overview.html",
        cards=cards,
        made=_made([card.known for card in cards]),
        refused=_refused([card.known for card in cards]),
        stuck=await stuck_things(visit),
        leaders=lease,
        races=await last_races(visit, _RACES),
        seen=list(reversed(list(visit.board.feed.recent)))[:_RACES],
    )


def _made(known: Sequence[Known]) -> Tile:
    """All moves of the last minute that are counted, and what is not."""
    counted = [one.pace.minute for one in known if one.pace]
    if not counted:
        return Tile("–", "moves are not counted: no history is declared" if known else "moves in the last minute")
    number = Count(sum(one.made for one in counted), more=any(one.seconds < MINUTE for one in counted))
    some = "" if len(counted) == len(known) else f", in {len(counted)} of {len(known)} lifecycles"
    return Tile(str(number), f"moves in the last minute{some}")


def _refused(known: Sequence[Known]) -> Tile:
    """The same for moves that were refused, which not every history keeps."""
    counted = [one.pace.minute for one in known if one.pace and one.losers]
    if not counted:
        return Tile("–", "refused moves are not recorded")
    number = Count(sum(one.refused for one in counted), more=any(one.seconds < MINUTE for one in counted))
    return Tile(str(number), "refused in the last minute")


async def last_races(visit: Visit, number: int) -> list[Decision]:
    """The newest decisions of all histories."""
    return (await visit.ask_shared(number, _races, visit.catalog.histories, number)).value or []


def _races(store: AsyncStore, histories: dict[str, list[str]], number: int) -> Program[list[Decision]]:
    found: list[Decision] = []
    if store.dialect != "redis":
        for table, names in histories.items():
            found += (yield from ledger(store, table, names, limit=number)).decisions
    return sorted(found, key=lambda one: one.entry.at, reverse=True)[:number]


async def find(visit: Visit) -> Response:
    """A row by its key, in whichever lifecycle it is; parts of a key are separated by commas."""
    text = (visit.asked("q") or "").strip()[:500]
    found: list[tuple[str, Spec[Any], tuple[str, ...], str]] = []
    for name, spec in visit.catalog.lifecycles.items() if text else ():
        parts = tuple(part.strip() for part in text.split(",", len(spec.key_columns) - 1))
        if len(parts) == len(spec.key_columns):
            row = await read_row(visit, spec, parts)
            if row.value:
                found.append((name, spec, parts, str(row.value.get(spec.column))))
    if len(found) == 1:
        return visit.back(visit.item(found[0][1], found[0][2]))
    return visit.page("find.html", 200 if found or not text else 404, text=text, found=found)


async def read_row(visit: Visit, spec: Spec[Any], parts: tuple[str, ...]) -> Reply[dict[str, Any] | None]:
    """The row with this key, if the one who looks may see it; nothing where there is none."""

    def read(store: AsyncStore) -> Program[dict[str, Any] | None]:
        try:
            key = yield from typed(store, spec.table, spec.key_columns, parts)
        except ValueError:
            return None
        if not is_of_tenant(spec.tenant, key, store.tenant):
            return None
        tenant = key[0] if spec.tenant else None
        return (yield from read_by_key(programs_of(store).reading, spec, user_key(spec, key), tenant))

    return await visit.ask(read)
