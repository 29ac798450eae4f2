"""What ours is compared with: each is an aiohttp application, and has no use for a database."""

from aiogram import Bot, Dispatcher
from aiogram.types import Message
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
from aiohttp import web

from bench.intake.update import PATH, SECRET


async def bare(database: str) -> web.BaseRunner:
    """Reads the body, and nothing else."""

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application()
    app.router.add_post(PATH, handle)
    return web.AppRunner(app, access_log=None)


async def aiogram(database: str) -> web.BaseRunner:
    """Its own handler as its manual has it: answers at once, parses and dispatches in the background, keeps nothing."""
    dispatcher = Dispatcher()

    @dispatcher.message()
    async def work(message: Message) -> None:
        pass

    app = web.Application()
    bot = Bot("1234567890:a-token-that-is-nobodys")
    SimpleRequestHandler(dispatcher, bot, secret_token=SECRET).register(app, path=PATH)
    return web.AppRunner(app, access_log=None)
