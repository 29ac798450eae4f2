"""One lifecycle: its picture with counts and rates, its moves, and its rows, a page at a time."""

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from raceproof.spec import Move
from raceproof.web.drawing import diagram
from raceproof.web.here import Here
from raceproof.web.looking.rows import counts, page, stamps_of
from raceproof.web.pages.overview import rates_of
from raceproof.web.rendering import rate


@dataclass(frozen=True, slots=True)
class Made:
    """A move, and how it went of late."""

    move: Move[Any]
    number: int
    per_minute: float
    refused: int
    already: int


async def lifecycle(here: Here) -> Response:
    name = here.asked("of") or ""
    spec = here.lifecycle(name)
    status = here.asked("status")
    before = here.request.query_params.getlist("before") or None
    counted = await here.ask_shared(name, counts, spec)
    rows = await here.ask(page, spec, status, before)
    seen = await rates_of(here)
    moves = []
    for one in spec.moves.values():
        mine = {key[2]: found for key, found in seen.items() if key[:2] == (spec.name, one.name)}
        number = mine["moved"].number if "moved" in mine else 0
        per_minute = mine["moved"].per_minute if "moved" in mine else 0.0
        refused = sum(mine[outcome].number for outcome in ("refused", "lost") if outcome in mine)
        moves.append(
            Made(one, number, per_minute, refused, mine["already"].number if "already" in mine else 0)
        )
    picture = diagram(
        spec,
        counted.value.at if counted.value else {},
        {
            one.move.name: (
                rate(one.per_minute) if one.number else "",
                f"✗{one.refused}" if one.refused else "",
            )
            for one in moves
            if one.number or one.refused
        },
        {str(one): here.url("/lifecycle", of=name, status=str(one)) + "#rows" for one in spec.statuses},
    )
    strange = [one for one in (counted.value.at if counted.value else {}) if one not in spec.status_of]
    return here.page(
        "lifecycle.html",
        name=name,
        spec=spec,
        counts=counted,
        rows=rows,
        status=status,
        before=before,
        moves=moves,
        picture=picture,
        strange=strange,
        stamps=stamps_of(spec),
        claims={key: one for key, one in here.catalog.claims.items() if one.lifecycle is spec},
        deliveries=here.catalog.deliveries_of(spec),
    )
