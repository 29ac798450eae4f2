"""The page: campaigns, podcasts, why a match scored as it did, reviews, and who works on what."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from appkit.access import same_origin
from appkit.web import event_stream, form_fields, templates
from outreach import reading, reviewing
from outreach.discovery import add_campaign
from outreach.languages import base
from outreach.lifecycle import Vetting
from outreach.monitoring import active_processing, stuck_locks
from outreach.service import Service
from outreach.stages import STAGES
from raceproof.ops.diagram import svg

LARGEST = 2**62


def pages(service: Service, folder: Path) -> APIRouter:
    """Pages, each at a URL of its own; parts of them are fetched again when something has changed."""
    routes = APIRouter(include_in_schema=False)
    rendered = templates(folder)
    database = service.database
    machine = svg(Vetting.spec)

    async def render(name: str, request: Request, root: str = "./", code: int = 200, **told: Any) -> HTMLResponse:
        """A page, or with `?fragment=1` its live part alone; `root` is the way back, so that all works under any prefix."""
        fragment = "fragment" in request.query_params
        template = rendered.get_template(f"{name}_body.html" if fragment else "page.html")
        live = request.url.include_query_params(fragment=1).query
        text = await template.render_async(
            root=root,
            body=f"{name}_body.html",
            live=f"?{live}",
            form=service.claiming.form,
            simulated=service.facts.simulated,
            **told,
        )
        return HTMLResponse(text, code)

    @routes.get("/")
    async def home(request: Request) -> Response:
        return await render(
            "overview",
            request,
            told=await reading.overview(database),
            active=await active_processing(database, service.claiming),
            stuck=await stuck_locks(database, service.claiming),
        )

    @routes.get("/campaigns.html")
    async def campaigns(request: Request) -> Response:
        return await render("campaigns", request, campaigns=await reading.all_campaigns(database))

    @routes.get("/discoveries.html")
    async def discoveries(
        request: Request, campaign: int | None = None, failed: bool = False, after: int = 0
    ) -> Response:
        rows, following = await reading.page_of_discoveries(
            database, campaign=_key(campaign), failed=failed, after=_key(after) or 0
        )
        return await render("discoveries", request, rows=rows, following=following, campaign=campaign, failed=failed)

    @routes.get("/podcasts.html")
    async def podcasts(request: Request, after: int = 0) -> Response:
        rows, following = await reading.page_of_podcasts(database, _key(after) or 0)
        return await render("podcasts", request, rows=rows, following=following)

    @routes.get("/podcast/{key}")
    async def podcast(request: Request, key: int) -> Response:
        found = await reading.one_podcast(database, key) if 0 <= key <= LARGEST else None
        if found is None:
            return await render("missing", request, "../", 404, what=f"podcast {key}")
        return await render("podcast", request, "../", p=found)

    @routes.get("/match/{key}")
    async def match(request: Request, key: int) -> Response:
        found = await reading.one_discovery(database, key) if 0 <= key <= LARGEST else None
        if found is None:
            return await render("missing", request, "../", 404, what=f"discovery {key}")
        return await render("match", request, "../", d=found)

    @routes.get("/reviews.html")
    async def reviews(request: Request, show: str = "pending", after: int = 0) -> Response:
        wanted = show if show in ("pending", "approved", "rejected") else None
        rows, following = await reading.page_of_reviews(database, status=wanted, after=_key(after) or 0)
        return await render("reviews", request, rows=rows, following=following, show=show)

    @routes.get("/lifecycle.svg")
    async def lifecycle() -> Response:
        return Response(machine, media_type="image/svg+xml")

    @routes.get("/changes")
    async def changes() -> StreamingResponse:
        return event_stream(service.follower.changes())

    @routes.post("/reviews/{task}")
    async def decide(request: Request, task: int) -> Response:
        """Approve or reject, by the buttons of the page."""
        form = await _form(request)
        verdict = form.get("verdict", "")
        if verdict not in ("approve", "reject") or not 0 <= task <= LARGEST:
            raise HTTPException(422, "approve or reject")
        who, because = form.get("by") or "somebody at the page", form.get("reason", "")
        answer = await reviewing.decide(database, task, verdict == "approve", who[:100], because[:500])
        if not answer.reached:
            return await render("refused", request, "../", 409, why=str(answer))
        return RedirectResponse("../reviews.html", status.HTTP_303_SEE_OTHER)

    @routes.post("/stages/{stage}")
    async def switch(request: Request, stage: str) -> Response:
        """Pause or resume."""
        form = await _form(request)
        if stage not in STAGES or form.get("action") not in ("pause", "resume"):
            raise HTTPException(422, "pause or resume a stage")
        await reviewing.switch(database, stage, form["action"] == "pause", "somebody at the page", "by the button")
        return RedirectResponse("../", status.HTTP_303_SEE_OTHER)

    @routes.post("/campaigns")
    async def add(request: Request) -> Response:
        """A new campaign."""
        form = await _form(request)
        keywords = [word.strip()[:100] for word in form.get("keywords", "").split(",") if word.strip()][:50]
        name, ideal = form.get("name", "").strip()[:100], form.get("ideal", "").strip()[:2000]
        if not (keywords and name and ideal):
            why = "A campaign has a name, keywords and an ideal podcast."
            return await render("refused", request, "./", 422, why=why)
        language = base(form.get("language", "")[:20])
        await add_campaign(database, name, keywords, ideal, language)
        return RedirectResponse("campaigns.html", status.HTTP_303_SEE_OTHER)

    @routes.get("/calls.html")
    async def calls(request: Request) -> Response:
        return await render("calls", request, calls=await reading.calls(database, 100))

    return routes


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form of ours, without characters that no database keeps."""
    if not same_origin(request):
        raise HTTPException(403, "a page of another origin may not change anything here")
    return {name: value.replace("\0", "") for name, value in (await form_fields(request)).items()}


def _key(value: int | None) -> int | None:
    """A number that is none of a row's finds nothing, instead of being an error of the database."""
    return None if value is None else max(0, min(value, LARGEST))
