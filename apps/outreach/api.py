"""The HTTP interface: what is there and what a person decides; pages are in `pages.py`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from appkit.access import ask_for, check_origin
from appkit.loops import Loops
from appkit.web import web_app
from outreach import reading, reviewing
from outreach.discovery import NoCampaign, add_campaign, discover
from outreach.feeds import NotAFeed
from outreach.fetching import NotFetched
from outreach.metrics import Metrics
from outreach.monitoring import active_processing, stuck_locks
from outreach.pages import pages
from outreach.service import Service
from outreach.stages import STAGES
from raceproof.moves import Answer

HERE = Path(__file__).parent
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00]+$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00]+$")]
Key = Annotated[int, Query(ge=0, le=2**62)]
PathKey = Annotated[int, PathParameter(ge=0, le=2**62)]
Limit = Annotated[int, Query(ge=1, le=200)]
StageName = Literal["enrichment", "ai_description", "vetting", "matching"]


class NewCampaign(BaseModel):
    """What a campaign looks for; the same name is the same campaign."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    keywords: Annotated[list[Name], Field(min_length=1, max_length=50)]
    ideal_podcast_description: Text
    language: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,3}$")] | None = None


class Source(BaseModel):
    """Where feeds are: an https URL of a feed, an OPML list or search results, or shipped:NAME."""

    model_config = ConfigDict(extra="forbid")

    source: Annotated[str, StringConstraints(pattern=r"^(https://|shipped:)[^\x00\s]{1,2000}$")]
    keyword: Name | None = None


class Reason(BaseModel):
    """Who, and why: it stays with the decision."""

    model_config = ConfigDict(extra="forbid")

    by: Name
    reason: Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")] = ""


class Problem(BaseModel):
    error: str


def outreach_app(service: Service, loops: Loops, metrics: Metrics) -> FastAPI:
    """The application; with a token, everything but `/health` asks for it."""
    app = web_app("outreach", loops, metrics.registry, service.settings.hosts, version="0.1.0")
    if service.settings.token is not None:
        ask_for(app, service.settings.token.get_secret_value())
    app.include_router(_looking(service))
    app.include_router(_deciding(service))
    app.include_router(pages(service, HERE / "templates"))
    return app


def _looking(service: Service) -> APIRouter:
    api = APIRouter(prefix="/api", tags=["looking"])
    database = service.database
    missing: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}

    @api.get("/overview")
    async def overview() -> dict[str, Any]:
        """Each stage with its counts, and what there is to decide."""
        return await reading.overview(database)

    @api.get("/campaigns")
    async def campaigns() -> dict[str, Any]:
        return {"campaigns": await reading.all_campaigns(database)}

    @api.get("/discoveries")
    async def discoveries(
        campaign: Key | None = None, failed: bool = False, after: Key = 0, limit: Limit = 50
    ) -> dict[str, Any]:
        """What campaigns have found; `next` is the `after` of the next page, null on the last."""
        rows, following = await reading.page_of_discoveries(
            database, campaign=campaign, failed=failed, after=after, limit=limit
        )
        return {"discoveries": rows, "next": following}

    @api.get("/discoveries/{key}", responses=missing)
    async def discovery(key: PathKey) -> dict[str, Any]:
        """Why a discovery scored as it did, with every error on its way."""
        found = await reading.one_discovery(database, key)
        if found is None:
            raise HTTPException(404, f"there is no discovery {key}")
        return found

    @api.get("/podcasts")
    async def podcasts(after: Key = 0, limit: Limit = 50) -> dict[str, Any]:
        rows, following = await reading.page_of_podcasts(database, after, limit)
        return {"podcasts": rows, "next": following}

    @api.get("/reviews")
    async def reviews(
        status: Literal["pending", "approved", "rejected"] | None = None, after: Key = 0, limit: Limit = 50
    ) -> dict[str, Any]:
        rows, following = await reading.page_of_reviews(database, status=status, after=after, limit=limit)
        return {"reviews": rows, "next": following}

    @api.get("/calls")
    async def calls(limit: Limit = 50) -> dict[str, Any]:
        """The latest AI calls: for what, with which end, tokens and cost."""
        return {"calls": await reading.calls(database, limit)}

    @api.get("/processing")
    async def processing() -> dict[str, Any]:
        """Who works on what, and which locks hold nothing any more."""
        active = await active_processing(database, service.claiming)
        stuck = await stuck_locks(database, service.claiming)
        return {"active": [one.shown() for one in active], "stuck": [one.shown() for one in stuck]}

    return api


def _deciding(service: Service) -> APIRouter:
    api = APIRouter(prefix="/api", tags=["deciding"])
    database = service.database
    refused: dict[int | str, dict[str, Any]] = {404: {"model": Problem}, 409: {"model": Problem}}

    @api.post("/campaigns", status_code=201)
    async def add(wanted: NewCampaign, request: Request) -> dict[str, Any]:
        check_origin(request)
        key = await add_campaign(
            database, wanted.name, wanted.keywords, wanted.ideal_podcast_description, wanted.language
        )
        return {"id": key}

    @api.post("/campaigns/{campaign}/discover", responses={**refused, 422: {"model": Problem}})
    async def find(campaign: PathKey, told: Source, request: Request) -> Any:
        """Add what a source names to a campaign."""
        check_origin(request)
        try:
            done = await discover(database, service.fetcher, campaign, told.source, told.keyword)
        except NoCampaign as error:
            raise HTTPException(404, str(error)) from None
        except (NotAFeed, NotFetched) as error:
            raise HTTPException(422, str(error)) from None
        return {"new": done.new, "known": done.known, "skipped": done.skipped}

    @api.post("/reviews/{task}/{verdict}", responses=refused)
    async def decide(
        task: PathKey,
        verdict: Literal["approve", "reject"],
        told: Reason,
        request: Request,
    ) -> dict[str, Any]:
        """One decision for a match; 409 for whoever comes second and decides otherwise."""
        check_origin(request)
        answer = await reviewing.decide(database, task, verdict == "approve", told.by, told.reason)
        return _checked(answer)

    @api.post("/stages/{stage}/{action}", responses=refused)
    async def switch(
        stage: StageName, action: Literal["pause", "resume"], told: Reason, request: Request
    ) -> dict[str, Any]:
        check_origin(request)
        return _checked(await reviewing.switch(database, stage, action == "pause", told.by, told.reason))

    return api


def _checked(answer: Answer[Any, Any] | reviewing.Resumed) -> dict[str, Any]:
    if answer.outcome == "missing":
        raise HTTPException(404, f"there is no {answer.key}")
    if not answer.reached:
        raise HTTPException(409, str(answer))
    return {"key": answer.key, "outcome": answer.outcome, "status": str(answer.status)}


assert set(StageName.__args__) == set(STAGES)  # type: ignore[attr-defined]
