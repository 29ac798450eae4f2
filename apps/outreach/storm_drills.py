"""What a storm does on purpose before it begins: moments that chance would hardly ever meet.

In each a real worker process is frozen in the middle of an AI call, for longer than its row is its own. The storm takes
the row over by a real claim, lets the worker go on, and looks at what the late worker could write. Another worker finds
no provider at all.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from sqlalchemy import select, text

from appkit.database import Database
from appkit.storm import Instance, Instances, Report, until
from outreach.forms import Claiming, Form
from outreach.stages import AI_DESCRIPTION
from outreach.storm_clock import minutes_pass
from outreach.tables import ai_budget, discoveries
from raceproof import Claim

PATIENCE = 60.0
STEADY = 2.5
"""Seconds for an answer in a drill."""
AI_TIMEOUT = 30.0
"""Longer than a worker is frozen, so that it still has its answer when it goes on."""


@dataclass
class Drills:
    """All of them; each worker is begun for its drill and killed after it."""

    instances: Instances
    database: Database
    claiming: Claiming
    provider: str
    lease: float
    environment: Callable[[int, Form], Mapping[str, str]]
    """Of a worker with this number, in this form."""
    pauses: int = 0
    late_results: list[str] = field(default_factory=list)
    """Rows that a late result has changed."""
    late_failures: list[str] = field(default_factory=list)
    bought_again: list[str] = field(default_factory=list)
    taken_over: int = 0
    products: list[str] = field(default_factory=list)
    """Whose answer came to a late worker, and must not be bought once more."""

    async def run(self, report: Report, forms: list[Form]) -> None:
        spent = await self._unsent()
        report.check("calls that were never sent cost nothing", spent == 0, spent, "unsent-calls-cost-nothing")
        await self._enriched()
        async with httpx.AsyncClient(base_url=self.provider, trust_env=False, timeout=10) as client:
            for form in forms:
                await self._late(client, form)
        report.counts["rows taken over from a frozen worker in a drill"] = self.taken_over
        report.at_least("rows taken over from frozen workers in drills", 2 * len(forms), self.taken_over)
        late = self.late_results
        report.check("a late result changes nothing", not late, "; ".join(late[:3]), "late-results-are-refused")
        late = self.late_failures
        report.check("a late failure changes nothing", not late, "; ".join(late[:3]), "late-failures-are-refused")

    async def _unsent(self) -> int:
        """A worker whose provider is not there, until it has tried a few times; what it has spent."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            nowhere = f"http://127.0.0.1:{one.getsockname()[1]}/v1"
        environment = {**self.environment(0, self.claiming.form), "OUTREACH_AI_URL": nowhere}
        worker = self.instances.add("no-provider", ["outreach", "work"], environment)
        assert await until(self._has_tried, PATIENCE), worker.tail(30)
        await asyncio.to_thread(worker.stop)
        self.instances.all.remove(worker)
        async with self.database.transaction() as (connection, _):
            await connection.execute(text("UPDATE pauses SET until = NULL, times = 0, failures = 0"))
            return int((await connection.execute(select(ai_budget.c.spent))).scalar_one())

    async def _has_tried(self) -> bool:
        async with self.database.read() as connection:
            asked = text("SELECT count(*) FROM ai_calls WHERE ended_at IS NOT NULL")
            return bool((await connection.execute(asked)).scalar_one() >= 3)

    async def _enriched(self) -> None:
        """The drills are about descriptions: some podcasts have to have their feeds read."""
        environment = {**self.environment(0, self.claiming.form), "OUTREACH_AI_URL": ""}
        worker = self.instances.add("enriching", ["outreach", "run", "--stage", "enrichment"], environment)

        async def done() -> bool:
            return not worker.running

        assert await until(done, PATIENCE), worker.tail(30)
        self.instances.all.remove(worker)

    async def _late(self, client: httpx.AsyncClient, form: Form) -> None:
        """A worker is frozen in a call and its rows are taken over; then its answers come, and next its failures."""
        await client.post("/control", json={"outage": "", "steady": STEADY})
        number = 0 if form is Form.COLUMNS else 1
        told = {
            "OUTREACH_AI_TIMEOUT": str(AI_TIMEOUT),
            "OUTREACH_ITEM_TIMEOUT": "70",
            "OUTREACH_DRAIN": "40",
        }
        name = f"late-{form}"
        worker = self.instances.add(name, ["outreach", "work"], {**self.environment(number, form), **told})
        for outage in ("", "down"):
            await self._frozen(client, worker, form, outage)
        await client.post("/control", json={"outage": "", "steady": 0.1})
        await asyncio.to_thread(worker.stop)
        self.instances.all.remove(worker)

    async def _frozen(self, client: httpx.AsyncClient, worker: Instance, form: Form, outage: str) -> None:
        """One freeze, with an answer that comes too late, or a failure."""
        before = len(await self._log(client))
        assert await until(lambda: self._calls(client, before), PATIENCE), worker.tail(30)
        worker.signal(signal.SIGSTOP)
        if outage:
            await client.post("/control", json={"outage": outage})
        try:
            claims = await self._taken_over(form)
            # by now the answer has come to the machine, and waits for the process
            assert await until(lambda: self._answered(client, before), PATIENCE)
        finally:
            worker.signal(signal.SIGCONT)
        self.pauses += 1
        self.taken_over += len(claims)

        async def noticed() -> bool:
            return all(f"discovery {one.key}," in worker.said() for one in claims)

        await until(noticed, STEADY + 5)
        changed = self.late_failures if outage else self.late_results
        for one in claims:
            if not await self._is_ours(one):
                changed.append(f"discovery {one.key}, by a worker of the form {form}")
        if not outage:
            answered = [call for call in (await self._log(client))[before:] if call["end"] == "answered"]
            self.products += [call["product"] for call in answered]
        await client.post("/control", json={"outage": ""})
        await self.database.store.release(claims)

    async def _log(self, client: httpx.AsyncClient) -> list[dict[str, Any]]:
        return list((await client.get("/log")).json())

    async def _calls(self, client: httpx.AsyncClient, before: int) -> bool:
        calls = (await self._log(client))[before:]
        return any(one["end"] == "under way" and one["product"].startswith("describe") for one in calls)

    async def _answered(self, client: httpx.AsyncClient, before: int) -> bool:
        return all(one["end"] != "under way" for one in (await self._log(client))[before:])

    async def _taken_over(self, form: Form) -> list[Claim[Any, Any]]:
        """The rows that the frozen worker holds, by real claims as soon as its locks are stale, and not before."""
        async with self.database.read() as connection:
            asked = select(discoveries.c.id).where(discoveries.c.ai_description_status == "in_progress")
            keys = list((await connection.execute(asked)).scalars())
        if form is Form.MARKER:
            await minutes_pass(self.database, 61, self.claiming.form, keys)
        claim = replace(self.claiming, form=form).of(AI_DESCRIPTION)
        claims: list[Claim[Any, Any]] = []

        async def all_taken() -> bool:
            for key in [key for key in keys if all(one.key != key for one in claims)]:
                answer = await self.database.store.claim_one(claim, key, by="drill", lease=PATIENCE * 10)
                if isinstance(answer, Claim):
                    claims.append(answer)
            return len(claims) == len(keys)

        await until(all_taken, self.lease + 10)
        return claims

    async def _is_ours(self, one: Claim[Any, Any]) -> bool:
        row = await self.database.store.read(AI_DESCRIPTION.lifecycle, one.key) or {}
        fence = row["enrichment_error"] if isinstance(one.fence, str) else row["ai_description_fence"]
        return bool(row["ai_description_status"] == "in_progress" and fence == one.fence)
