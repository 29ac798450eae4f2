"""imagebot: two instances, one of them ACTIVE; a simulated Telegram, and a KIE that repeats and loses callbacks."""

import asyncio
import itertools
import re
import secrets
from collections import Counter
from typing import Any

import httpx

from appkit.storm import until
from showcase.applications.application import Application, free_port
from showcase.children import Child

USERS = (1001, 1002, 2001, 2002, 2003, 2004)
THINGS = ("a red fox", "a lighthouse", "an old tram", "a quiet lake", "a paper boat", "two cats")
TROUBLE = "duplicate=0.3,late=0.1,lost=0.1,refuse_urls=0.1,fail=0.05"
CAPTION = re.compile(r"#(j\d+)$")
UNDER_WAY = ("queued", "creating", "create_unknown", "generating", "ready")


class ImagebotApplication(Application):
    name = "imagebot"
    says = "A Telegram bot that sells pictures: paid once, made once, delivered once, or refunded."
    every = 4.0

    async def simulate(self) -> None:
        self._secrets = {
            "TELEGRAM_BOT_TOKEN": f"1:{secrets.token_hex(16)}",
            "KIE_API_KEY": secrets.token_hex(16),
            "KIE_WEBHOOK_KEY": secrets.token_hex(16),
            "WEBHOOK_SECRET": secrets.token_hex(16),
        }
        self._orders = itertools.count(1)
        telegram, kie = free_port(), free_port()
        self.telegram, self.kie = f"http://127.0.0.1:{telegram}", f"http://127.0.0.1:{kie}"
        ports = ["--telegram-port", str(telegram), "--kie-port", str(kie)]
        arguments = ["simulate", *ports, "--seconds", "2", "--trouble", TROUBLE]
        simulators = Child(self.foreman, "imagebot-simulators", arguments, self._secrets, self.folder)
        self.others.append(await simulators.start())
        await until(lambda: self._answers(f"{self.telegram}/control/stats"), 30, 0.1)

    def environment(self, name: str, port: int) -> dict[str, str]:
        return {
            **self._secrets,
            "PORT": str(port),
            "HOST": "127.0.0.1",
            "PUBLIC_URL": f"http://127.0.0.1:{port}",
            "IMAGEBOT_INSTANCE": name,
            "IMAGEBOT_SIMULATED": "1",
            "IMAGEBOT_FOLDER": str(self.folder),
            "DATABASE_URL": f"sqlite:///{self.database}",
            "TELEGRAM_API": self.telegram,
            "KIE_API": self.kie,
            "ADMIN_IDS": "1",
            "MODELS": '{"z-image": 200}',
            "WELCOME": "100000000",
            "LOCK_SECONDS": "4",
            "TAKEOVER": "0.5",
            "HEARTBEAT": "2",
            "POLL": "1.5",
            "SEND_TIMEOUT": "5",
            "KIE_TIMEOUT": "5",
            "DELIVERY_STALE": "8",
            "CREATION_STALE": "8",
            "GENERATION_LIMIT": "30",
            "DRAIN": "5",
        }

    async def turn(self) -> None:
        """Somebody orders a picture and confirms, as a person with two thumbs does."""
        number = next(self._orders)
        user = USERS[number % len(USERS)]
        await self._post(f"{self.telegram}/control/say/{user}", text=f"/image {THINGS[number % len(THINGS)]}")
        for _ in range(20):
            await asyncio.sleep(0.3)
            if button := await self._button(user):
                for _ in range(1 + number % 2):
                    await self._post(f"{self.telegram}/control/press/{user}", **button)
                return

    async def duplicate(self) -> str | None:
        """The callback of a picture that was delivered long ago comes three more times."""
        tasks = (await self.http.get(f"{self.kie}/control/tasks")).json()["tasks"]
        done = [one["task_id"] for one in tasks if one["state"] == "success"]
        if not done:
            return None
        again = f"{self.kie}/control/callback/{done[-1]}"
        answers = await asyncio.gather(*(self.http.post(again) for _ in range(3)))
        statuses = sorted({str(answer.json()["status"]) for answer in answers})
        return f"sent the callback of a picture three more times (answered with {', '.join(statuses)})"

    async def figures(self) -> dict[str, int]:
        jobs = dict(await self.rows("SELECT status, count(*) FROM generation_jobs GROUP BY status"))
        refused = "SELECT count(*) FROM job_history WHERE outcome NOT IN ('moved', 'already')"
        return {
            "pictures delivered": jobs.get("delivered", 0),
            "under way": sum(jobs.get(status, 0) for status in UNDER_WAY),
            "refunded": sum(jobs.get(status, 0) for status in ("failed", "blocked", "expired", "refunded")),
            "end unknown": jobs.get("uncertain", 0),
            "callbacks kept": await self.number("SELECT count(*) FROM kie_callbacks"),
            "moves refused": await self.number(refused),
        }

    async def under_way(self) -> str | None:
        waiting = await self.number(
            """
            SELECT (SELECT count(*) FROM telegram_updates WHERE status IN ('received', 'processing'))
                 + (SELECT count(*) FROM kie_callbacks WHERE status IN ('received', 'processing'))
            """
        )
        stats = (await self.http.get(f"{self.telegram}/control/stats")).json()
        figures = await self.figures()
        still = waiting + stats["waiting"] + figures["under way"]
        return f"{still} pictures or updates are under way" if still else None

    async def violations(self) -> list[str]:
        stats = (await self.http.get(f"{self.telegram}/control/stats?full")).json()
        arrived: Counter[str] = Counter()
        for _, caption in stats["photo_captions"]:
            if named := CAPTION.search(caption):
                arrived[named.group(1)] += 1
        jobs = dict(await self.rows("SELECT job_id, status FROM generation_jobs WHERE confirmed_at IS NOT NULL"))
        found = [f"picture {job} arrived {times} times" for job, times in arrived.items() if times > 1]
        found += [
            f"picture {job} is called delivered and is in no chat"
            for job, status in jobs.items()
            if status == "delivered" and not arrived[job]
        ]
        accepted = set(map(str, stats["accepted_ids"]))
        kept = {key for (key,) in await self.rows("SELECT event_id FROM telegram_updates")}
        if lost := accepted - kept:
            found.append(f"{len(lost)} updates were answered with 200 and are lost")
        wrong = await self.number(
            """
            SELECT count(*) FROM user_balances AS b WHERE b.balance < 0 OR (b.balance, b.held) <>
            (SELECT COALESCE(SUM(t.amount), 0), COALESCE(SUM(t.held), 0) FROM transactions AS t
             WHERE t.user_id = b.user_id)
            """
        )
        return found + ([f"{wrong} balances are not the sum of their ledger"] if wrong else [])

    @property
    def page(self) -> str | None:
        return f"{self.telegram}/" if self.ready else None

    async def _button(self, user: int) -> dict[str, Any] | None:
        """The newest confirmation that the bot asks for."""
        chat = (await self.http.get(f"{self.telegram}/control/chat/{user}")).json()
        for message in reversed(chat["messages"][-6:]):
            for row in (message.get("reply_markup") or {}).get("inline_keyboard", ()):
                for button in row:
                    if button.get("callback_data", "").startswith("make|"):
                        return {"message_id": message["message_id"], "data": button["callback_data"]}
        return None

    async def _post(self, url: str, **told: Any) -> None:
        await self.http.post(url, json=told)

    async def _answers(self, url: str) -> bool:
        try:
            return (await self.http.get(url)).status_code == 200
        except httpx.HTTPError:
            return False
