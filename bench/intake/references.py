"""What ours is compared with: on the same servers, and with no use for a database."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aiogram import Bot, Dispatcher
from aiogram.types import Message
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
from aiohttp import web

from bench.intake.servers import Tell, serve_aiohttp, serve_granian, serve_uvicorn
from bench.intake.update import PATH, SECRET


async def bare_aiohttp(database: str, tell: Tell) -> None:
    """Reads the body, and nothing else."""

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application()
    app.router.add_post(PATH, handle)
    await serve_aiohttp(app, tell)


async def bare_uvicorn(database: str, tell: Tell) -> None:
    """Reads the body, and nothing else."""
    await serve_uvicorn(_bare, tell)


async def bare_granian(database: str, tell: Tell) -> None:
    """Reads the body, and nothing else."""
    await serve_granian(_bare, tell)


async def aiogram(database: str, tell: Tell) -> None:
    """Its own handler as its manual has it: answers at once, parses and dispatches in the background, keeps nothing."""
    dispatcher = Dispatcher()

    @dispatcher.message()
    async def work(message: Message) -> None:
        pass

    app = web.Application()
    bot = Bot("1234567890:a-token-that-is-nobodys")
    SimpleRequestHandler(dispatcher, bot, secret_token=SECRET).register(app, path=PATH)
    await serve_aiohttp(app, tell)


async def _bare(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
