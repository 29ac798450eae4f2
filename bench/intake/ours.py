"""Ours: verified, parsed, kept in PostgreSQL by a commit that requests share, and only then answered."""

import asyncpg
from aiohttp import web

from bench.intake.update import PATH, SECRET
from raceproof import AsyncStore, Inbox, connect, inbox_ddl
from raceproof.intake import Endpoint, TelegramSecret
from raceproof.intake.aiohttp import aiohttp_handler


def ours(database: str) -> web.Application:
    """The intake with its inbox, as the manual has it."""
    app = web.Application()
    inbox = Inbox()
    opened: list[AsyncStore] = []

    async def start(_: web.Application) -> None:
        connection = await asyncpg.connect(database)
        await connection.execute(inbox_ddl("postgres", inbox))
        await connection.close()
        opened.append(await connect(database))

    async def stop(_: web.Application) -> None:
        await opened[0].close()

    endpoint = Endpoint(
        "telegram",
        TelegramSecret(SECRET),
        lambda arrival: opened[0].receive(inbox, arrival),
        event_id=lambda update: str(update["update_id"]),
    )
    app.on_startup.append(start)
    app.on_cleanup.append(stop)
    app.router.add_post(PATH, aiohttp_handler(endpoint))
    return app
