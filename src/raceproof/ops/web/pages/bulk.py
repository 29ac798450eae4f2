"""Many rows at once: the form of a plan, the plan as a preview, and its report."""

from starlette.exceptions import HTTPException
from starlette.responses import Response

from raceproof.ops.web.bulk import MOST_ROWS
from raceproof.ops.web.visit import Visit


async def bulk(visit: Visit) -> Response:
    name = visit.asked("of") or next(iter(visit.catalog.lifecycles), None)
    spec = visit.lifecycle(name) if name else None
    move = visit.asked("move")
    chosen = spec.moves.get(move) if spec and move else None
    mine = [one for one in visit.board.plans.all() if one.actor == visit.access.actor]
    return visit.page("bulk.html", name=name, spec=spec, chosen=chosen, plans=mine, most=MOST_ROWS)


async def plan(visit: Visit) -> Response:
    found = visit.board.plans.find(visit.request.path_params["plan"])
    if found is None or found.actor != visit.access.actor:
        raise HTTPException(404, "no such plan, or it has expired: freeze it again")
    return visit.page("plan.html", plan=found, spec=found.move.lifecycle)
