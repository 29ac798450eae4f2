"""The page and the API: B5, and what a person decides."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import assume

from appkit.loops import Loops
from outreach import campaign_media_discoveries as the_note
from outreach.api import outreach_app
from outreach.discovery import add_campaign, discover
from outreach.metrics import Metrics
from outreach.opening import Purpose
from outreach.service import Service, measure, prepared
from outreach.settings import Settings
from outreach.stages import ENRICHMENT
from tests.apps.described import operations_of, try_out

from .conftest import run_all


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """The pipeline has run once, and a row is being worked on."""
    told = Settings(database=f"sqlite:///{tmp_path / 'outreach.db'}", rest=0.0)
    async with prepared(told, Metrics(), Purpose.MIGRATE) as service:
        campaign = await add_campaign(service.database, "Startups <b>", ["startup", "pricing"], "Founders on pricing.")
        await discover(service.database, service.fetcher, campaign, "shipped:search-startups.json")
        await discover(service.database, service.fetcher, campaign, "shipped:coming-soon.xml")
        await run_all(service, 1)
        await discover(service.database, service.fetcher, campaign, "shipped:deep-soil.xml")
        await service.database.store.claim(service.claiming.of(ENRICHMENT), by="worker-7")
        yield service


def client_of(service: Service, metrics: Metrics | None = None, **headers: str) -> httpx.AsyncClient:
    app = outreach_app(service, Loops(), metrics or Metrics())
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://localhost",
        headers=headers,
        follow_redirects=True,
    )


async def test_every_page_shows_what_is_there(service: Service) -> None:
    async with client_of(service) as client:
        for path, shown in {
            "/": "worker-7",
            "/campaigns.html": "Startups &lt;b&gt;",
            "/discoveries.html": "The Growth Ledger",
            "/discoveries.html?failed=1": "no episodes",
            "/podcasts.html": "Dana Okafor",
            "/podcast/1": "Newest episodes",
            "/match/1": "Why this score",
            "/reviews.html": "Approve",
            "/?fragment=1": "Active processing",
            "/metrics": 'outreach_discoveries{stage="vetting"',
            "/lifecycle.svg": "<svg",
        }.items():
            answer = await client.get(path)
            assert (answer.status_code, shown in answer.text) == (200, True), (path, answer.text[:2000])
            assert "<b>Startups" not in answer.text
        for path in ("/match/4711", "/podcast/4711", "/match/99999999999999999999"):
            assert (await client.get(path)).status_code == 404


async def test_two_people_at_once_and_one_decides(service: Service) -> None:
    async with client_of(service) as client:
        [task, *_] = (await client.get("/api/reviews")).json()["reviews"]
        path = f"/api/reviews/{task['id']}"
        answers = await asyncio.gather(
            client.post(f"{path}/approve", json={"by": "ann", "reason": "fits"}),
            client.post(f"{path}/reject", json={"by": "bob", "reason": "does not"}),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        shown = (await client.get(f"/match/{task['discovery_id']}")).text
        assert ("by ann" in shown) != ("by bob" in shown)


async def test_a_stage_is_paused_by_the_button_and_by_the_api(service: Service) -> None:
    async with client_of(service) as client:
        assert "Resume" in (await client.post("/stages/vetting", data={"action": "pause"})).text
        again = await client.post("/api/stages/vetting/pause", json={"by": "ann"})
        assert again.json()["outcome"] == "already"
        assert (await client.post("/api/stages/cooking/pause", json={"by": "ann"})).status_code == 422


async def test_another_origin_changes_nothing(service: Service) -> None:
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    async with client_of(service, None, **headers) as client:
        for path in ("/stages/vetting", "/reviews/1", "/campaigns"):
            assert (await client.post(path, data={"action": "pause"})).status_code == 403
        assert (await client.post("/api/stages/vetting/pause", json={"by": "x"})).status_code == 403


async def test_with_a_token_nothing_but_health_is_open(service: Service) -> None:
    told = service.settings.model_copy(update={"token": Settings(token="open-sesame-42-and-more").token})
    guarded = replace(service, settings=told)
    async with client_of(guarded) as client:
        codes = {path: (await client.get(path)).status_code for path in ("/", "/api/overview", "/metrics", "/health")}
        assert codes == {"/": 401, "/api/overview": 401, "/metrics": 401, "/health": 200}
        bearer = {"Authorization": "Bearer open-sesame-42-and-more"}
        assert (await client.get("/", headers=bearer)).status_code == 200


async def test_stuck_and_active_are_figures(service: Service) -> None:
    metrics = Metrics()
    the_note.use(service.database, service.claiming)
    await measure(service, metrics)
    async with client_of(service, metrics) as client:
        text = (await client.get("/metrics")).text
    assert 'outreach_active_processing{stage="enrichment"} 1.0' in text
    assert 'outreach_stuck_locks{stage="enrichment"} 0.0' in text


async def test_no_request_is_an_error_of_ours(service: Service) -> None:
    """What nobody would ask is refused, and never a 500."""
    app = outreach_app(service, Loops(), Metrics())
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for method, path, body in [
            ("GET", "/api/discoveries?after=-1", None),
            ("GET", f"/api/discoveries?after={2**63}", None),
            ("GET", "/api/discoveries/abc", None),
            ("POST", "/api/campaigns", b"{"),
            (
                "POST",
                "/api/campaigns",
                b'{"name": "\\u0000", "keywords": ["a"], "ideal_podcast_description": "x"}',
            ),
            (
                "POST",
                "/api/campaigns",
                b'{"name": "\\ud800", "keywords": ["a"], "ideal_podcast_description": "x"}',
            ),
            ("POST", "/api/campaigns", b'{"name": "a", "keywords": [], "ideal_podcast_description": "x"}'),
            ("POST", "/api/campaigns/1/discover", b'{"source": "https://127.0.0.1/x"}'),
            ("POST", "/api/campaigns/1/discover", b'{"source": "file:///etc/passwd"}'),
            ("POST", "/api/campaigns/1/discover", b'{"source": "shipped:../settings.py"}'),
            ("POST", "/api/campaigns/999/discover", b'{"source": "shipped:deep-soil.xml"}'),
            ("POST", "/api/reviews/999/approve", b'{"by": "a"}'),
            ("POST", "/reviews/99999999999999999999999", b"verdict=approve"),
        ]:
            kind = "application/json" if path.startswith("/api") else "application/x-www-form-urlencoded"
            answer = await client.request(method, path, content=body, headers={"content-type": kind})
            assert 400 <= answer.status_code < 500, (path, body, answer.status_code)


async def test_whatever_the_description_allows_is_answered_as_it_says(service: Service) -> None:
    """Made from the API's own description: no error of ours, and only answers that the description knows."""
    app = outreach_app(service, Loops(), Metrics())
    served = httpx.ASGITransport(app, raise_app_exceptions=False)
    described = schemathesis.openapi.from_dict(app.openapi())
    operations = operations_of(described)
    assert len(operations) >= 10
    loop = asyncio.get_running_loop()

    async def asked(case: schemathesis.Case[Any]) -> int:
        told = case.as_transport_kwargs(base_url="http://localhost")
        told.pop("cookies", None)
        async with httpx.AsyncClient(transport=served) as client:
            return (await client.request(**told)).status_code

    def ask_for(operation: Any) -> None:
        known = {int(code) for code in operation.definition.raw["responses"]}

        def ask(case: schemathesis.Case[Any]) -> None:
            # a name that leads nowhere is asked for in vain, at length
            assume("https://" not in str(case.body))
            code = asyncio.run_coroutine_threadsafe(asked(case), loop).result(60)
            assert code in known, (operation.label, code, case.body)

        try_out(operation, 12, ask)

    for operation in operations:
        await asyncio.to_thread(ask_for, operation)
