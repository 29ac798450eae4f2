"""Ours: verified, parsed, kept in PostgreSQL by a commit that requests share, and only then answered."""

from collections.abc import Awaitable, Callable

import asyncpg
from aiohttp import web

from bench.intake.update import PATH, SECRET
from raceproof import Arrival, AsyncStore, Inbox, connect, inbox_ddl
from raceproof.intake import Endpoint, TelegramSecret
from raceproof.intake.aiohttp import aiohttp_handler, aiohttp_server


def ours(database: str) -> web.Application:
    """The intake with its inbox in an application, as the manual has it."""
    app = web.Application()
    inbox = Inbox()
    opened: list[AsyncStore] = []

    async def start(_: web.Application) -> None:
        opened.append(await _store(database, inbox))

    async def stop(_: web.Application) -> None:
        await opened[0].close()

    app.on_startup.append(start)
    app.on_cleanup.append(stop)
    app.router.add_post(PATH, aiohttp_handler(_endpoint(lambda arrival: opened[0].receive(inbox, arrival))))
    return app


async def alone(database: str) -> web.Server:
    """The same as a server of its own, as the manual has that."""
    inbox = Inbox()
    db = await _store(database, inbox)
    return aiohttp_server({PATH: _endpoint(lambda arrival: db.receive(inbox, arrival))})


async def _store(database: str, inbox: Inbox) -> AsyncStore:
    connection = await asyncpg.connect(database)
    await connection.execute(inbox_ddl("postgres", inbox))
    await connection.close()
    return await connect(database)


def _endpoint(receive: Callable[[Arrival], Awaitable[object]]) -> Endpoint:
    return Endpoint(
        "telegram", TelegramSecret(SECRET), receive, event_id=lambda update: str(update["update_id"])
    )
