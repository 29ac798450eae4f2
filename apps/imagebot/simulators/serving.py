"""Both simulators on ports of their own, in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from appkit.hosts import Hosts
from imagebot.hosts import known_hosts, own_pages
from imagebot.simulators.control import Control
from imagebot.simulators.kie import KieSimulator
from imagebot.simulators.telegram import TelegramSimulator
from imagebot.simulators.trouble import Trouble

PEOPLE = ((1001, "Ann", "en"), (1002, "Борис", "ru"), (1, "Admin", "en"))


@dataclass(frozen=True, slots=True)
class Simulators:
    """Where they are."""

    telegram: TelegramSimulator
    kie: KieSimulator
    telegram_url: str
    kie_url: str


@dataclass(frozen=True, slots=True)
class Secrets:
    """What the bot must know to speak with them."""

    token: str
    api_key: str
    webhook_key: str


@asynccontextmanager
async def simulated(
    secrets: Secrets,
    trouble: Trouble,
    ports: tuple[int, int] = (0, 0),
    seconds: float = 4.0,
    size: int = 192,
    people: bool = True,
) -> AsyncIterator[Simulators]:
    """Telegram and KIE until the block ends."""
    telegram = TelegramSimulator(secrets.token, trouble)
    kie = KieSimulator(secrets.api_key, secrets.webhook_key, trouble, seconds, size)
    telegram_app = telegram.routed()
    Control(telegram).add_to(telegram_app)
    runners = []
    urls = []
    try:
        for app, port in ((telegram_app, ports[0]), (kie.routed(), ports[1])):
            app.middlewares.extend((known_hosts(Hosts("imagebot")), own_pages))
            runner = web.AppRunner(
                app, access_log=None, handle_signals=False, shutdown_timeout=1, handler_cancellation=True
            )
            await runner.setup()
            runners.append(runner)
            await web.TCPSite(runner, "127.0.0.1", port).start()
            urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        kie.address = urls[1]
        for user, name, language in PEOPLE if people else ():
            telegram.chat(user, name, language)
        yield Simulators(telegram, kie, *urls)
    finally:
        for runner in runners:
            await runner.cleanup()
