"""What is not a page: style sheets, the script, the event stream, and login by token."""

from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from raceproof.ops.web.forms import one, read_form
from raceproof.ops.web.pictures import diagram_style
from raceproof.ops.web.token import COOKIE
from raceproof.ops.web.visit import Visit

_KINDS = {
    "dashboard.css": "text/css; charset=utf-8",
    "diagram.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


async def static(visit: Visit) -> Response:
    name = visit.request.path_params["file"]
    if name not in _KINDS:
        raise HTTPException(404, "no such file")
    if name == "diagram.css":
        specs = list(visit.catalog.lifecycles.values())
        body = diagram_style(specs[0]) if specs else ""
    else:
        body = files("raceproof.ops.web").joinpath("static", name).read_text(encoding="utf-8")
    return Response(body, media_type=_KINDS[name], headers={"Cache-Control": "max-age=300"})


async def live(visit: Visit) -> Response:
    """Server-sent events: one whenever the page should reload."""
    if visit.board.pages.full:
        raise HTTPException(503, "too many pages are open")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(visit.board.pages.follow(), media_type="text/event-stream", headers=headers)


async def login(visit: Visit) -> Response:
    """Check the token, and start a session."""
    door = visit.board.login
    if door is None:
        raise HTTPException(404, "this dashboard has no login")
    visit.board.gate.check_origin(visit.request)
    with door.guesses.form():
        form = await read_form(visit.request)
    if not await door.accepts(visit.request, one(form, "token")):
        return visit.page("login.html", 401, wrong=True)
    door.sessions.end(visit.request.cookies.get(COOKIE, ""))
    answer = visit.back(visit.url("/"))
    answer.set_cookie(
        COOKIE,
        door.sessions.begin(),
        max_age=int(door.sessions.seconds),
        path=visit.cookie_path,
        httponly=True,
        samesite="strict",
        secure=visit.is_secure,
    )
    return answer


async def logout(visit: Visit) -> Response:
    """End the session of this browser."""
    door = visit.board.login
    if door is None:
        raise HTTPException(404, "this dashboard has no login to log out of")
    visit.board.gate.check_origin(visit.request)
    door.sessions.end(visit.request.cookies.get(COOKIE, ""))
    answer = visit.back(visit.url("/"))
    answer.delete_cookie(COOKIE, path=visit.cookie_path, httponly=True, samesite="strict", secure=visit.is_secure)
    return answer
