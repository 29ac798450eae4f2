"""What ours is compared with: each makes an aiohttp application for a database, which these two have no use for."""

from aiogram import Bot, Dispatcher
from aiogram.types import Message
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
from aiohttp import web

from bench.intake.update import PATH, SECRET


def bare(database: str) -> web.Application:
    """Reads the body, and nothing else."""

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application()
    app.router.add_post(PATH, handle)
    return app


def aiogram(database: str) -> web.Application:
    """Its own handler as its manual has it: answers at once, parses and dispatches in the background, keeps nothing."""
    dispatcher = Dispatcher()

    @dispatcher.message()
    async def work(message: Message) -> None:
        pass

    app = web.Application()
    bot = Bot("1234567890:a-token-that-is-nobodys")
    SimpleRequestHandler(dispatcher, bot, secret_token=SECRET).register(app, path=PATH)
    return app
