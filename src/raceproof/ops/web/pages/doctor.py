"""What is wrong with the store, with evidence and what to paste."""

from starlette.responses import Response

from raceproof.ops.doctor import Diagnosis, diagnose
from raceproof.ops.web.filters import problem
from raceproof.ops.web.visit import Visit

_SHARED_SECONDS = 15.0
_ROWS = 5_000  # at each end of a table; the command line looks further


async def doctor(visit: Visit) -> Response:
    """Looked at once for all who ask within a few seconds."""
    source = visit.board.source

    async def look() -> Diagnosis:
        # who may not ask for the time cannot compare the clocks: ours would be the answer to both
        ignored = () if await source.tells_time() else ("clock",)
        return await diagnose(await source.reader(), *visit.catalog.things, limit=10, rows=_ROWS, ignore=ignored)

    diagnosis, trouble = None, ""
    try:
        diagnosis = await source.shared("doctor", _SHARED_SECONDS, look)
    except Exception as error:
        trouble = problem(error)
    return visit.page("doctor.html", diagnosis=diagnosis, trouble=trouble)
