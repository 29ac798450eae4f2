"""Ours: verified, parsed, kept in PostgreSQL by a commit that requests share, and only then answered."""

import asyncpg
from aiohttp import web

from bench.intake.servers import Tell, serve_aiohttp, serve_granian, serve_uvicorn
from bench.intake.update import PATH, SECRET
from raceproof import Inbox, connect, ddl
from raceproof.webhooks import Endpoint, TelegramSecret
from raceproof.webhooks.aiohttp import aiohttp_handler
from raceproof.webhooks.asgi import asgi_app


async def on_aiohttp(database: str, tell: Tell) -> None:
    """The endpoint as a handler of an application."""
    app = web.Application()
    app.router.add_post(PATH, aiohttp_handler(await _endpoint(database)))
    await serve_aiohttp(app, tell)


async def under_uvicorn(database: str, tell: Tell) -> None:
    """The endpoint as an ASGI application."""
    await serve_uvicorn(asgi_app(await _endpoint(database)), tell)


async def under_granian(database: str, tell: Tell) -> None:
    """The same under a server whose HTTP is written in Rust."""
    await serve_granian(asgi_app(await _endpoint(database)), tell)


async def _endpoint(database: str) -> Endpoint:
    inbox = Inbox()
    connection = await asyncpg.connect(database)
    await connection.execute("\n".join(ddl(inbox, dialect="postgres")))
    await connection.close()
    store = await connect(database)
    return Endpoint(
        "telegram",
        TelegramSecret(SECRET),
        store.receiver(inbox),
        event_id=lambda update: str(update["update_id"]),
    )
