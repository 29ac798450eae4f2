"""The HTTP interface and the page.

A login is started by whoever may speak for the user: a backend with the token, a Mini App of the bot, or, on loopback
without either, anybody. From then on the signed token of the attempt is asked for, and it opens that attempt alone.
"""

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints
from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

from appkit.loops import Loops
from appkit.web import event_stream, templates, web_app
from qrlogin.door import COOKIE, Door
from qrlogin.identity import USER_ID, AccountNeeded, SessionId
from qrlogin.lifecycle import TOKEN_SECONDS, Attempt
from qrlogin.limits import Limit
from qrlogin.manager import Forgotten, StoreBusy, TooLate
from qrlogin.metrics import Metrics
from qrlogin.seeing import code_url, drawn, follow, seen
from qrlogin.service import Service
from qrlogin.sessions_api import session_routes
from qrlogin.settings import Settings
from raceproof import StoreUnavailable
from raceproof.ops.diagram import svg

log = logging.getLogger("qrlogin.api")

HERE = Path(__file__).parent
PASSWORD_SECONDS = 60.0
UserId = Annotated[str, StringConstraints(pattern=f"^{USER_ID}$")]
NO_STORE = {"Cache-Control": "no-store"}


class NewLogin(BaseModel):
    """Whose login it is. A Mini App leaves it out: Telegram has signed who its user is.

    Only `account_id` may scan; if it is left out, `user_id` is the id of the account.
    """

    model_config = ConfigDict(extra="forbid")

    user_id: UserId | None = None
    account_id: Annotated[int, Field(gt=0, lt=2**63)] | None = None


class Started(BaseModel):
    session_id: str
    token: str
    expires_in: int
    """Seconds for which the token is good."""
    page: str
    link: str


class Password(BaseModel):
    """The cloud password of a Telegram account; it is handed to the login that asks for it, and kept nowhere."""

    model_config = ConfigDict(extra="forbid")

    password: Annotated[SecretStr, StringConstraints(min_length=1, max_length=500)]


class Problem(BaseModel):
    detail: str


def login_app(service: Service, loops: Loops, metrics: Metrics, settings: Settings, phones: Any = None) -> FastAPI:
    """The application; with simulated phones the page can scan its own code. `state.closing` ends those who follow."""
    app = web_app("qrlogin", loops, metrics.registry, settings.hosts, version="0.1.0")
    app.state.closing = asyncio.Event()
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    door = Door(
        settings,
        settings.signer(),
        Limit(settings.starts_of_user),
        Limit(settings.starts_of_address),
        Limit(20),
    )
    for kind in (StoreUnavailable, RedisError, DBAPIError, OSError):
        app.add_exception_handler(kind, _away)
    app.include_router(_starting(service, door))
    app.include_router(_logins(service, door))
    app.include_router(session_routes(service, door, Problem))
    app.include_router(_pages(service, door, simulated=phones is not None))
    if phones is not None:
        from qrlogin.simulated.web import phone_routes

        app.include_router(phone_routes(service, door.enter, phones))
    return app


async def _away(_: Request, error: Exception) -> Response:
    log.warning("a store did not answer (%s)", type(error).__name__)
    return JSONResponse({"detail": "the store does not answer; try again in a moment"}, 503, {"Retry-After": "2"})


def _starting(service: Service, door: Door) -> APIRouter:
    api = APIRouter(tags=["logins"])
    refused: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (401, 403, 404, 422, 429, 503)}

    async def start(starting: Awaitable[str], request: Request, response: Response) -> Started:
        try:
            made = await starting
        except AccountNeeded as error:
            raise HTTPException(422, str(error)) from None
        except Forgotten as error:
            raise HTTPException(404, str(error)) from None
        except TooLate as error:
            raise HTTPException(403, str(error)) from None
        except StoreBusy as error:
            raise HTTPException(503, str(error)) from None
        token = door.signer.token(SessionId.parsed(made))
        _give_cookie(response, request, door.settings, made, token)
        return Started(
            session_id=made,
            token=token,
            expires_in=TOKEN_SECONDS,
            page=f"logins/{made}/page",
            link=f"{door.settings.url or './'}#login={made}/{token}",
        )

    @api.post("/logins", status_code=201, responses=refused)
    async def begin(wanted: NewLogin, request: Request, response: Response) -> Started:
        """Start a login: it ends an open one of the same user, and its token opens it alone."""
        door.check_origin(request)
        user_id = door.starter(request, wanted.user_id, wanted.account_id)
        door.count_start(request, user_id)
        starting = service.manager.create_session(user_id, door.settings.ttl, wanted.account_id)
        return await start(starting, request, response)

    @api.post("/logins/{session_id}/again", status_code=201, responses=refused)
    async def again(
        session_id: Annotated[SessionId, Depends(door.enter)], request: Request, response: Response
    ) -> Started:
        """A new try of the same user: 404 if the old one is forgotten, 403 if the first was over an hour ago."""
        door.check_origin(request)
        door.count_start(request, session_id.user_id)
        return await start(service.manager.try_again(session_id, door.settings.ttl), request, response)

    @api.post("/logins/{session_id}/enter", responses=refused)
    async def enter(
        session_id: Annotated[SessionId, Depends(door.enter)], request: Request, response: Response
    ) -> dict[str, str]:
        """Trade the token for a cookie, which the page of this attempt needs."""
        door.check_origin(request)
        _give_cookie(response, request, door.settings, str(session_id), door.signer.token(session_id))
        return {"page": f"logins/{session_id}/page"}

    return api


def _logins(service: Service, door: Door) -> APIRouter:
    api = APIRouter(tags=["logins"], prefix="/logins/{session_id}")
    places = service.places
    entered = Annotated[SessionId, Depends(door.enter)]
    responses: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (401, 404, 422)}

    @api.get("", responses=responses)
    async def one(session_id: entered, response: Response) -> dict[str, Any]:
        """Where the login stands."""
        response.headers.update(NO_STORE)
        told = await seen(places, session_id)
        if told is None:
            raise HTTPException(404, "this login was so long ago that it is forgotten")
        return told

    @api.get("/events", responses=responses)
    async def events(session_id: entered, request: Request, once: bool = False) -> StreamingResponse:
        """Server-sent events: where the login stands, whenever that changes, until it has ended."""
        return event_stream(follow(places, session_id, request.app.state.closing, once))

    @api.get("/code.{kind}", responses=responses, response_class=Response)
    async def code(
        session_id: entered,
        kind: Literal["svg", "png"],
        theme: Annotated[Literal["light", "dark"], Query()] = "light",
    ) -> Response:
        """The code to scan now, as a picture."""
        url = await code_url(places, session_id)
        if url is None:
            raise HTTPException(404, "there is no code to scan now")
        media = {"svg": "image/svg+xml", "png": "image/png"}[kind]
        return Response(drawn(url, kind, theme), media_type=media, headers=NO_STORE)

    @api.post(
        "/password",
        status_code=202,
        responses={**responses, 409: {"model": Problem}, 429: {"model": Problem}},
    )
    async def password(session_id: entered, told: Password, request: Request) -> dict[str, str]:
        """Answer a login that asks for the password; 409 if it does not."""
        door.check_origin(request)
        if not door.passwords.allows(str(session_id)):
            raise HTTPException(429, "too many passwords; wait a minute")
        now = await seen(places, session_id)
        if now is None or now["password"] is None:
            raise HTTPException(409, "no password is asked for now")
        sealed = places.vault.seal(f"password {session_id}", told.password.get_secret_value())
        await places.beside.put_password(session_id, sealed.text, PASSWORD_SECONDS)
        return {"status": "taken"}

    @api.post("/cancel", responses={**responses, 409: {"model": Problem}})
    async def cancel(session_id: entered, request: Request) -> dict[str, Any]:
        """End it; 409 if it has ended already, or its session is being saved."""
        door.check_origin(request)
        answer = await service.manager.cancel(session_id)
        if not answer.won:
            if answer.outcome == "missing":
                raise HTTPException(404, "this login is forgotten")
            raise HTTPException(409, "this login has ended, or its session is being saved already")
        return {"status": "failed", "reason": "cancelled"}

    return api


def _pages(service: Service, door: Door, simulated: bool) -> APIRouter:
    pages = APIRouter(include_in_schema=False)
    rendered = templates(HERE / "templates")
    machine = svg(Attempt.spec)

    async def render(name: str, root: str, code: int = 200, **told: Any) -> HTMLResponse:
        """`root` is the way back to the first page, so that links work under any prefix; see QRLOGIN_URL for cookies."""
        text = await rendered.get_template(name).render_async(root=root, simulated=simulated, **told)
        return HTMLResponse(text, code, headers=NO_STORE)

    @pages.get("/")
    async def home() -> Response:
        return await render("start.html", "./", open=door.open)

    @pages.get("/logins/{session_id}/page")
    async def page(session_id: str, request: Request) -> Response:
        try:
            wanted = door.enter(session_id, request)
        except (HTTPException, ValueError):
            return await render("closed.html", "../../", 401)
        told = await seen(service.places, wanted)
        if told is None:
            return await render("closed.html", "../../", 404)
        return await render("login.html", "../../", login=told)

    @pages.get("/lifecycle.svg")
    async def lifecycle() -> Response:
        return Response(machine, media_type="image/svg+xml")

    return pages


def _give_cookie(response: Response, request: Request, settings: Settings, session_id: str, token: str) -> None:
    """For the page of this attempt alone: the browser sends it to its path and to no other."""
    path = f"{settings.path}/logins/{session_id}"
    secure = request.url.scheme == "https" or settings.url.startswith("https:")
    response.set_cookie(
        COOKIE, token, path=path, httponly=True, samesite="strict", secure=secure, max_age=TOKEN_SECONDS
    )
    response.headers.update(NO_STORE)
