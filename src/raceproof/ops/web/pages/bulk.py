"""Many rows at once: the form of a plan, the plan as a preview, and its report."""

from starlette.exceptions import HTTPException
from starlette.responses import Response

from raceproof.ops.web.bulk import MOST_ROWS
from raceproof.ops.web.visit import Here


async def bulk(here: Here) -> Response:
    name = here.asked("of") or next(iter(here.catalog.lifecycles), None)
    spec = here.lifecycle(name) if name else None
    move = here.asked("move")
    chosen = spec.moves.get(move) if spec and move else None
    mine = [one for one in here.board.plans.all() if one.actor == here.access.actor]
    return here.page("bulk.html", name=name, spec=spec, chosen=chosen, plans=mine, most=MOST_ROWS)


async def plan(here: Here) -> Response:
    found = here.board.plans.find(here.request.path_params["plan"])
    if found is None or found.actor != here.access.actor:
        raise HTTPException(404, "there is no such plan, or it is too old; make it again")
    return here.page("plan.html", plan=found, spec=found.move.lifecycle)
