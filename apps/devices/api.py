"""The HTTP interface and the page."""

from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from appkit.access import ask_for, check_origin
from appkit.loops import Loops
from appkit.web import event_stream, form_fields, number, templates, web_app
from devices.lifecycle import Command, Status
from devices.metrics import Metrics
from devices.reading import Follower, all_nodes, counts, newest_refused, one_command, page_of_commands
from devices.service import Service
from devices.submitting import Declined, UnknownCommand, Wanted
from raceproof.ops.diagram import svg
from raceproof.webhooks import BadJson, parse

HERE = Path(__file__).parent
CommandId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
Segment = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
NodePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){2}$")]


class NewCommand(BaseModel):
    """What a node is to do. Without a `cmd_id` one is made; send your own to be able to ask again safely."""

    model_config = ConfigDict(extra="forbid")

    cmd_id: CommandId | None = None
    node: NodePath = Field(description="greenhouse/zone/node")
    channel: Segment
    cmd: Segment
    params: dict[str, Any] = {}
    valid_for: float | None = Field(None, gt=0, le=86400, description="seconds for which it may be published")
    urgent: bool = Field(False, description="a stop: clears what waits in its channel, and comes first")


class Reason(BaseModel):
    """Who, and why: it stays in the command's timeline."""

    model_config = ConfigDict(extra="forbid")

    by: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class Problem(BaseModel):
    error: str


def device_app(
    service: Service,
    loops: Loops,
    metrics: Metrics,
    follower: Follower,
    token: str | None,
    hosts: Iterable[str] = (),
) -> FastAPI:
    """The application; with a token, everything but `/health` asks for it."""
    app = web_app("devices", loops, metrics.registry, hosts, version="0.1.0")
    if token is not None:
        ask_for(app, token)
    app.include_router(_commands(service, follower))
    app.include_router(_pages(service, follower))
    return app


def _commands(service: Service, follower: Follower) -> APIRouter:
    api = APIRouter(tags=["commands"])
    database = service.database
    missing: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}

    @api.post("/commands", status_code=201, responses={200: {}, 201: {}, 409: {"model": Problem}})
    async def submit(wanted: NewCommand, request: Request, response: Response) -> dict[str, Any]:
        """Keep a command: 201 if it is new, 200 if the same was there already, 409 if its id is another command's."""
        check_origin(request)
        done = await service.submitting.submit(Wanted(**wanted.model_dump()))
        if done.outcome == "different":
            raise HTTPException(409, f"{wanted.cmd_id} is the id of another command, with other content")
        response.status_code = 201 if done.outcome == "created" else 200
        return {**done.command, "cleared": done.cleared, "under_way": done.under_way}

    @api.get("/commands")
    async def listed(
        node: NodePath | None = None,
        status: Annotated[list[Status] | None, Query()] = None,
        before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        person: bool = False,
    ) -> dict[str, Any]:
        """The newest first; `next` is the `before` of the next page, null on the last. `person`: those that need one."""
        page, following = await page_of_commands(
            database, node=node, status=status or (), before=before, limit=limit, person=person
        )
        return {"commands": page, "next": following}

    @api.get("/commands/{cmd_id}", responses=missing)
    async def one(cmd_id: CommandId) -> dict[str, Any]:
        """A command with its timeline, and with everything that nodes have said about it."""
        return await _found(cmd_id)

    @api.get("/commands/{cmd_id}/events", responses=missing)
    async def follow(cmd_id: CommandId, request: Request, once: bool = False) -> StreamingResponse:
        """Server-sent events: what has happened and what happens, until the command has ended."""
        await _found(cmd_id)
        after = request.headers.get("last-event-id", "0")
        return event_stream(follower.of_command(cmd_id, number(after), once))

    @api.post("/commands/{cmd_id}/cancel", responses={**missing, 409: {"model": Problem}})
    async def cancel(cmd_id: CommandId, told: Reason, request: Request) -> dict[str, Any]:
        """Take it back while it waits; 409 once it is on its way or beyond."""
        check_origin(request)
        await _decided(cmd_id, service.submitting.cancel(cmd_id, told.by, told.reason))
        return await _found(cmd_id)

    @api.post("/commands/{cmd_id}/resend", responses={**missing, 409: {"model": Problem}})
    async def resend(cmd_id: CommandId, told: Reason, request: Request) -> dict[str, Any]:
        """Publish a withdrawn command after all: an override, which may be a second dose, and which has your name on it."""
        check_origin(request)
        await _decided(cmd_id, service.submitting.resend(cmd_id, told.by, told.reason))
        return await _found(cmd_id)

    @api.get("/nodes")
    async def nodes(after: str = "", limit: Annotated[int, Query(ge=1, le=200)] = 200) -> dict[str, Any]:
        """Nodes that were heard of, by path."""
        return {"nodes": await all_nodes(database, limit, after)}

    @api.get("/refused")
    async def refused() -> dict[str, Any]:
        """The newest messages that were not taken, with the reason."""
        return {"refused": await newest_refused(database)}

    async def _found(cmd_id: str) -> dict[str, Any]:
        found = await one_command(database, cmd_id)
        if found is None:
            raise HTTPException(404, f"there is no command {cmd_id}")
        return found

    return api


async def _decided(cmd_id: str, asked: Awaitable[None]) -> None:
    try:
        await asked
    except UnknownCommand:
        raise HTTPException(404, f"there is no command {cmd_id}") from None
    except Declined as why:
        raise HTTPException(409, str(why)) from None


Tab = Literal["all", "open", "trouble", "person"]
TABS: dict[str, list[Status]] = {
    "all": [],
    "open": [Status.QUEUED, Status.SENT, Status.ACK],
    "trouble": [Status.SEND_FAILED, Status.TIMEOUT, Status.ERROR, Status.INVALID, Status.BUSY],
    "person": [],
}


def _pages(service: Service, follower: Follower) -> APIRouter:
    pages = APIRouter(include_in_schema=False)
    rendered = templates(HERE / "templates")
    database = service.database
    machine = svg(Command.spec)

    async def render(name: str, root: str = "./", code: int = 200, **told: Any) -> HTMLResponse:
        """`root` is the way back to the first page, so that all works under any prefix."""
        text = await rendered.get_template(name).render_async(tabs=list(TABS), root=root, **told)
        return HTMLResponse(text, code)

    @pages.get("/")
    async def home(
        request: Request,
        tab: Tab = "all",
        before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
        node: NodePath | None = None,
    ) -> Response:
        listed, following = await page_of_commands(
            database, node=node, status=TABS[tab], before=before, person=tab == "person"
        )
        return await render(
            "commands.html" if "fragment" not in request.query_params else "commands_table.html",
            commands=listed,
            following=following,
            tab=tab,
            node=node,
            before=before,
            counts=await counts(database),
        )

    @pages.get("/command/{cmd_id}")
    async def command(cmd_id: CommandId, request: Request) -> Response:
        found = await one_command(database, cmd_id)
        if found is None:
            return await render("missing.html", "../", 404, cmd_id=cmd_id)
        name = "command_body.html" if "fragment" in request.query_params else "command.html"
        return await render(name, "../", c=found)

    @pages.get("/nodes.html")
    async def nodes() -> Response:
        return await render("nodes.html", nodes=await all_nodes(database), refused=await newest_refused(database))

    @pages.get("/lifecycle.svg")
    async def lifecycle() -> Response:
        return Response(machine, media_type="image/svg+xml")

    @pages.get("/changes")
    async def changes() -> StreamingResponse:
        return event_stream(follower.changes())

    @pages.post("/new")
    async def new(request: Request) -> Response:
        """The form of the page."""
        check_origin(request)
        form = await form_fields(request)
        try:
            wanted = NewCommand(
                node=form.get("node", ""),
                channel=form.get("channel", ""),
                cmd=form.get("cmd", ""),
                params=parse((form.get("params") or "{}").encode()),
                urgent="urgent" in form,
            )
        except (BadJson, ValueError) as error:
            return await render("refused.html", code=422, why=str(error))
        done = await service.submitting.submit(Wanted(**wanted.model_dump()))
        return RedirectResponse(f"command/{done.command['cmd_id']}", status.HTTP_303_SEE_OTHER)

    return pages
