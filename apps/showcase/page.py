"""The page: both sides of every scenario, the four applications, and the buttons. Loopback only; changes by POST alone.

A change needs the token that stands in the page, and must come from a page of this origin; hosts other than loopback are
not answered, so that no name of somebody else's leads here.
"""

import inspect
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CollectorRegistry

from appkit.access import check_origin
from appkit.web import event_stream, form_fields, templates, web_app
from showcase.trouble import TROUBLES
from showcase.twins.every import SCENARIOS
from showcase.twins.scenario import RACEPROOF, UNGUARDED

if TYPE_CHECKING:
    from showcase.running import Showcase

HERE = Path(__file__).parent
PARTS = ("twins", "applications", "incidents")


def showcase_app(showcase: "Showcase") -> FastAPI:
    """The application; `state.token` is what changes need."""
    app = web_app("showcase", showcase.loops, CollectorRegistry(), version="0.1.0", openapi_url=None)
    app.state.token = secrets.token_urlsafe(24)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.include_router(_looking(showcase, app.state.token))
    app.include_router(_changing(showcase, app.state.token))
    return app


def _looking(showcase: "Showcase", token: str) -> APIRouter:
    pages = APIRouter()
    rendered = templates(HERE / "templates")

    async def render(name: str, **told: Any) -> HTMLResponse:
        text = await rendered.get_template(name).render_async(
            showcase=showcase,
            seen=showcase.seen,
            scenarios=SCENARIOS.values(),
            troubles=TROUBLES,
            unguarded=UNGUARDED,
            raceproof=RACEPROOF,
            token=token,
            **told,
        )
        return HTMLResponse(text, headers={"Cache-Control": "no-store"})

    @pages.get("/")
    async def home() -> Response:
        return await render("page.html")

    @pages.get("/parts/{name}")
    async def part(name: str) -> Response:
        """A part of the page, rendered again."""
        if name not in PARTS:
            raise HTTPException(404, "there is no such part")
        return await render(f"{name}.html")

    @pages.get("/scenario/{name}")
    async def scenario(name: str) -> Response:
        """The two pieces of code that race, as they are run."""
        if name not in SCENARIOS:
            raise HTTPException(404, "there is no such scenario")
        one = SCENARIOS[name]
        module = inspect.getmodule(one.guarded)
        declared = inspect.getsource(module).partition("\n\n\nclass Unguarded")[0] if module else ""
        return await render(
            "scenario.html",
            one=one,
            declared=_declaration(declared),
            usual=inspect.getsource(one.unguarded),
            ours=inspect.getsource(one.guarded),
        )

    @pages.get("/state.json")
    async def state() -> dict[str, Any]:
        """The same for programs."""
        seen = showcase.seen
        return {
            "scenarios": {
                name: {
                    side: {
                        "done": one.done,
                        "wrong": one.wrong,
                        "held_off": one.held_off,
                        "kept_for_a_person": one.held,
                    }
                    for side, one in sides.items()
                }
                for name, sides in seen.scores.items()
            },
            "applications": {
                app.name: {
                    "ready": app.ready,
                    "instances": {one.name: one.state for one in app.instances},
                    "figures": seen.figures.get(app.name, {}),
                }
                for app in showcase.applications
            },
            "busy_cores": seen.cores,
        }

    @pages.get("/changes")
    async def changes() -> StreamingResponse:
        async def looks() -> AsyncIterator[tuple[str, dict[str, Any]]]:
            number = showcase.seen.number
            while True:
                number = (await showcase.looks(number)).number
                yield str(number), {"look": number}

        return event_stream(looks())

    return pages


def _changing(showcase: "Showcase", token: str) -> APIRouter:
    api = APIRouter()

    @api.post("/trouble/{name}")
    async def cause(name: str, request: Request) -> Response:
        """Press a button."""
        check_origin(request)
        told = request.headers.get("x-token") or (await form_fields(request)).get("token", "")
        if not secrets.compare_digest(told.encode(), token.encode()):
            raise HTTPException(403, "the token of the page is missing, or from another run: reload the page")
        if name not in TROUBLES:
            raise HTTPException(404, f"unknown trouble {name}; choose from {', '.join(TROUBLES)}")
        if showcase.troubles.press(name) is None:
            raise HTTPException(429, "enough trouble waits already")
        return RedirectResponse("../#trouble", 303)

    return api


def _declaration(source: str) -> str:
    """What is declared before the code, without its imports."""
    _, _, rest = source.partition("\nfrom showcase.twins.scenario import")
    return rest.partition("\n")[2].strip()
