"""One lifecycle: its picture with counts and rates, its moves, and its rows, a page at a time."""

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from raceproof.declare.spec import Move
from raceproof.ops.web.pages.rates import known_of
from raceproof.ops.web.pictures import diagram
from raceproof.ops.web.queries.rates import Tally
from raceproof.ops.web.queries.rows import counts, page, stamps_of
from raceproof.ops.web.visit import Visit


@dataclass(frozen=True, slots=True)
class Made:
    """A move, and what became of it in the time that the page names."""

    move: Move[Any]
    tally: Tally


async def lifecycle(visit: Visit) -> Response:
    name = visit.asked("of") or ""
    spec = visit.lifecycle(name)
    status = visit.asked("status")
    before = visit.request.query_params.getlist("before") or None
    counted = await visit.ask_shared(name, counts, spec)
    rows = await visit.ask(page, spec, status, before)
    known = (await known_of(visit))[spec.name]
    tallies = known.pace.hour.moves if known.pace else {}
    moves = [Made(one, tallies.get(one.name, Tally())) for one in spec.moves.values()]
    picture = diagram(
        spec,
        counted.value.at if counted.value else {},
        {
            one.move.name: (
                f"{one.tally.made:,}" if one.tally.made else "",
                f"✗{one.tally.refused:,}" if one.tally.refused else "",
            )
            for one in moves
            if one.tally.made or one.tally.refused
        },
        {str(one): visit.url("/lifecycle", of=name, status=str(one)) + "#rows" for one in spec.statuses},
    )
    strange = [one for one in (counted.value.at if counted.value else {}) if one not in spec.status_of]
    return visit.page(
        "lifecycle.html",
        name=name,
        spec=spec,
        counts=counted,
        rows=rows,
        status=status,
        before=before,
        moves=moves,
        known=known,
        picture=picture,
        strange=strange,
        stamps=stamps_of(spec),
        claims={key: one for key, one in visit.catalog.claims.items() if one.lifecycle is spec},
        deliveries=visit.catalog.deliveries_of(spec),
    )
