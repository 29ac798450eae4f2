"""What is not a page: style sheets and the script, the stream of changes, and the door of those who have the token."""

from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from raceproof.ops.web.forms import one, read_form
from raceproof.ops.web.pictures import diagram_style
from raceproof.ops.web.token import COOKIE
from raceproof.ops.web.visit import Here

_KINDS = {
    "dashboard.css": "text/css; charset=utf-8",
    "diagram.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


async def static(here: Here) -> Response:
    name = here.request.path_params["file"]
    if name not in _KINDS:
        raise HTTPException(404, "there is no such file")
    if name == "diagram.css":
        specs = list(here.catalog.lifecycles.values())
        body = diagram_style(specs[0]) if specs else ""
    else:
        body = files("raceproof.ops.web").joinpath("static", name).read_text(encoding="utf-8")
    return Response(body, media_type=_KINDS[name], headers={"Cache-Control": "max-age=300"})


async def live(here: Here) -> Response:
    """Server-sent events: a word whenever the page is worth loading again."""
    if here.board.pages.full:
        raise HTTPException(503, "too many pages are open")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(here.board.pages.follow(), media_type="text/event-stream", headers=headers)


async def login(here: Here) -> Response:
    """Take the token, and begin a session that the browser keeps."""
    door = here.board.login
    if door is None:
        raise HTTPException(404, "there is nothing to log in to")
    here.board.gate.check_origin(here.request)
    with door.guesses.form():
        form = await read_form(here.request)
    if not await door.accepts(here.request, one(form, "token")):
        return here.page("login.html", 401, wrong=True)
    door.sessions.end(here.request.cookies.get(COOKIE, ""))
    answer = here.back(here.url("/"))
    answer.set_cookie(
        COOKIE,
        door.sessions.begin(),
        max_age=int(door.sessions.seconds),
        path=here.cookie_path,
        httponly=True,
        samesite="strict",
        secure=here.is_secure,
    )
    return answer


async def logout(here: Here) -> Response:
    """End the session of this browser."""
    door = here.board.login
    if door is None:
        raise HTTPException(404, "there is nothing to log out of")
    here.board.gate.check_origin(here.request)
    door.sessions.end(here.request.cookies.get(COOKIE, ""))
    answer = here.back(here.url("/"))
    answer.delete_cookie(COOKIE, path=here.cookie_path, httponly=True, samesite="strict", secure=here.is_secure)
    return answer
