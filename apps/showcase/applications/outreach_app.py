"""outreach: two instances that share the stages, and a simulated AI provider that is slow, fails and answers twice."""

import itertools
import random
import secrets

import httpx

from appkit.storm import until
from showcase.applications.application import Application, free_port
from showcase.children import Child

TOPICS = (
    ("startup", "Interviews with founders of software startups about marketing, pricing and growth."),
    ("soil", "Conversations about agriculture, soil, farming and food with scientists and farmers."),
    ("databases", "Technical conversations with engineers about databases and distributed systems."),
    ("climate", "Talks about climate, energy and what people can do about it."),
)
SOURCES = ("shipped:subscriptions.opml", "shipped:search-startups.json")
SINGLE = (
    "growth-ledger",
    "kernel-panic",
    "deep-soil",
    "orbit-notes",
    "protocol-tea",
    "first-hire",
    "plain-money",
)
AT_ONCE = 3
"""AI calls, over both instances."""
STAGES = ("enrichment", "ai_description", "vetting", "matching")


class OutreachApplication(Application):
    name = "outreach"
    says = "From podcast feeds to matches that a person reviews; nothing is described or paid for twice."
    every = 9.0

    async def simulate(self) -> None:
        self._key, port = secrets.token_hex(16), free_port()
        self._provider = f"http://127.0.0.1:{port}"
        self._numbers = itertools.count(1)
        trouble = ["--slow", "0.3", "--fail", "0.15", "--twice", "0.1"]
        provider = Child(
            self.foreman,
            "outreach-provider",
            ["provider", "--port", str(port), *trouble],
            {"OUTREACH_AI_KEY": self._key},
            self.folder,
        )
        self.others.append(await provider.start())
        await until(self._answers, 30, 0.1)

    def environment(self, name: str, port: int) -> dict[str, str]:
        return {
            "OUTREACH_FOLDER": str(self.folder),
            "OUTREACH_DATABASE": f"sqlite:///{self.database}",
            "OUTREACH_INSTANCE": name,
            "OUTREACH_PORT": str(port),
            "OUTREACH_RHYTHM": "continuous",
            "OUTREACH_AI_URL": f"{self._provider}/v1",
            "OUTREACH_AI_KEY": self._key,
            "OUTREACH_AI_RATE": "5",
            "OUTREACH_AI_TIMEOUT": "5",
            "OUTREACH_AI_BUDGET": "1000",
            "OUTREACH_AI_PAUSE": "1",
            "OUTREACH_SLOT": "4",
            "OUTREACH_LEASE": "4",
            "OUTREACH_ITEM_TIMEOUT": "20",
            "OUTREACH_BATCH": "4",
            "OUTREACH_REST": "1",
        }

    async def turn(self) -> None:
        """A new campaign on feeds that ship with the application; and a person decides about a match."""
        number = next(self._numbers)
        url = self.url()
        if url is None:
            return
        topic, ideal = TOPICS[number % len(TOPICS)]
        wanted = {"name": f"campaign {number}", "keywords": [topic], "ideal_podcast_description": ideal}
        campaign = (await self.http.post(f"{url}/api/campaigns", json=wanted)).json()["id"]
        sources = SOURCES if number <= 2 else [f"shipped:{random.choice(SINGLE)}.xml" for _ in range(3)]
        for source in sources:
            await self.http.post(f"{url}/api/campaigns/{campaign}/discover", json={"source": source})
        pending = (await self.http.get(f"{url}/api/reviews?status=pending&limit=2")).json()["reviews"]
        for one in pending:
            verdict = random.choice(("approve", "reject"))
            told = {"by": "a person", "reason": "looked at it"}
            await self.http.post(f"{url}/api/reviews/{one['id']}/{verdict}", json=told)

    async def duplicate(self) -> str | None:
        """Two people decide about the same match at the same moment, and differ."""
        url = self.url()
        if url is None:
            return None
        pending = (await self.http.get(f"{url}/api/reviews?status=pending&limit=1")).json()["reviews"]
        if not pending:
            return None
        statuses = [
            (
                await self.http.post(
                    f"{self.url()}/api/reviews/{pending[0]['id']}/{verdict}",
                    json={"by": verdict, "reason": ""},
                )
            ).status_code
            for verdict in ("approve", "reject")
        ]
        return f"approved and rejected match {pending[0]['id']} (answered with {statuses[0]} and {statuses[1]})"

    async def figures(self) -> dict[str, int]:
        ledger = (await self.http.get(f"{self._provider}/ledger")).json()
        return {
            "descriptions": await self.number("SELECT count(*) FROM media WHERE ai_description IS NOT NULL"),
            "vetted": await self.number(
                "SELECT count(*) FROM campaign_media_discoveries WHERE vetting_status = 'completed'"
            ),
            "matches": await self.number("SELECT count(*) FROM match_suggestions"),
            "AI calls": ledger["calls"],
            "of them failed": ledger["failed"],
        }

    async def under_way(self) -> str | None:
        failed = " OR ".join(f"{stage}_status = 'failed'" for stage in STAGES)
        still = await self.number(
            f"""
            SELECT count(*) FROM campaign_media_discoveries
            WHERE matching_status <> 'completed' AND NOT ({failed})
            """  # noqa: S608
        )
        return f"{still} discoveries are under way" if still else None

    async def violations(self) -> list[str]:
        ledger = (await self.http.get(f"{self._provider}/ledger")).json()
        found = []
        if ledger["overlaps"]:
            found.append(f"{ledger['overlaps']} times the same was asked for twice at once")
        if ledger["peak"] > AT_ONCE:
            found.append(f"{ledger['peak']} AI calls were made at once")
        twice = await self.number(
            """
            SELECT count(*) FROM (SELECT 1 FROM match_suggestions GROUP BY campaign_id, media_id HAVING count(*) > 1)
            """
        )
        reviews = await self.number(
            """
            SELECT count(*) FROM match_suggestions AS m
            WHERE (SELECT count(*) FROM review_tasks AS r WHERE r.match_suggestion_id = m.id) <> 1
            """
        )
        if twice:
            found.append(f"{twice} matches are there twice")
        if reviews:
            found.append(f"{reviews} matches have no review, or several")
        return found

    async def _answers(self) -> bool:
        try:
            return (await self.http.get(f"{self._provider}/ledger")).status_code == 200
        except httpx.HTTPError:
            return False
