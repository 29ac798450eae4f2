"""Names of another in Host are refused, and the simulators change nothing for pages of another origin."""

from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from imagebot.main_render import Application
from imagebot.settings import Settings
from imagebot.simulators.serving import simulated
from imagebot.simulators.trouble import Trouble
from tests.apps.imagebot.conftest import SECRETS, WEBHOOK_SECRET


@pytest.mark.parametrize(
    ("host", "refused"),
    [("bot.example.com", False), ("also.example.com", False), ("127.0.0.1", False), ("evil.example", True)],
)
async def test_every_route_answers_to_its_own_names_only(tmp_path: Path, host: str, refused: bool) -> None:
    """That of PUBLIC_URL, those of IMAGEBOT_HOSTS, and addresses."""
    settings = Settings(
        folder=tmp_path,
        public_url="https://bot.example.com/",
        hosts="also.example.com",
        webhook_secret=WEBHOOK_SECRET,
        kie_webhook_key=SECRETS.webhook_key,
    )
    async with TestClient(TestServer(Application(settings).routed())) as client:
        for route in client.app.router.routes():
            path = route.resource.canonical if route.resource else "/"
            answer = await client.request(route.method, path, headers={"Host": host})
            assert (answer.status == 421) is refused, (route.method, path, answer.status)


async def test_a_page_of_another_origin_says_nothing_in_the_chat_of_the_simulator() -> None:
    """It could send text/plain anywhere, and be the admin."""
    async with simulated(SECRETS, Trouble()) as made, aiohttp.ClientSession() as http:
        url = f"{made.telegram_url}/control/say/1"
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": made.telegram_url, "Sec-Fetch-Site": "cross-site"}, 403),
            ({"Host": "evil.example"}, 421),
        ):
            async with http.post(url, data='{"text": "/grant 1001 999999"}', headers=headers) as answer:
                assert answer.status == status
        async with http.post(url, json={"text": "/help"}, headers={"Origin": made.telegram_url}) as answer:
            assert answer.status == 200
