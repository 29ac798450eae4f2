"""Ours: verified, parsed, kept in PostgreSQL by a commit that requests share, and only then answered."""

import asyncpg
from aiohttp import web

from bench.intake.update import PATH, SECRET
from raceproof import Inbox, connect, inbox_ddl
from raceproof.intake import Endpoint, TelegramSecret
from raceproof.intake.aiohttp import aiohttp_handler, aiohttp_runner


async def handler(database: str) -> web.BaseRunner:
    """The intake with its inbox as a handler of an application."""
    app = web.Application()
    app.router.add_post(PATH, aiohttp_handler(await _endpoint(database)))
    return web.AppRunner(app, access_log=None)


async def before(database: str) -> web.BaseRunner:
    """The same in front of an application."""
    return aiohttp_runner(web.Application(), {PATH: await _endpoint(database)}, access_log=None)


async def _endpoint(database: str) -> Endpoint:
    inbox = Inbox()
    connection = await asyncpg.connect(database)
    await connection.execute(inbox_ddl("postgres", inbox))
    await connection.close()
    store = await connect(database)
    return Endpoint(
        "telegram",
        TelegramSecret(SECRET),
        store.receiver(inbox),
        event_id=lambda update: str(update["update_id"]),
    )
