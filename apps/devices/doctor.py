"""What is wrong, with the evidence and what to do about it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiomqtt
from sqlalchemy import func, select

from appkit import commands as kit
from appkit.database import open_database
from devices.lifecycle import Command, Node, Permit, Status
from devices.messages import Topics
from devices.service import MIGRATIONS
from devices.settings import EMBEDDED, Settings, broker_options
from devices.submitting import DOUBTFUL
from devices.tables import commands, evidence, nodes, own_tables, refused_responses
from raceproof.ops.sweep import sweep
from raceproof.ops.verify import verify


async def examine(settings: Settings, output: str, fix: bool) -> int:
    """Print what was found; exit code 6 if there are problems."""
    found = [one async for one in findings(settings, fix)]
    kit.show(found, output, ["check", "result", "evidence", "repair"])
    return kit.PROBLEMS if any(one["result"] == "problem" for one in found) else kit.OK


async def findings(settings: Settings, fix: bool) -> AsyncIterator[dict[str, str]]:
    """Check after check, as a row of what `doctor` prints."""
    yield await _broker(settings)
    try:
        opened = open_database(settings.database_url, MIGRATIONS, own_tables)
        async with opened as database:
            yield _fine("database", database.dialect)
            for lifecycle in (Command, Permit, Node):
                for found in await verify(database.store, lifecycle):
                    if found.level != "ok":
                        yield _problem(f"declaration of {lifecycle.__name__}", found.what, found.repair)
            async with database.read() as connection:
                for check, statement, repair in _questions():
                    number = (await connection.execute(statement)).scalar_one()
                    yield _problem(check, f"{number}", repair) if number else _fine(check, "none")
            if fix:
                swept = await sweep(database.store, Command)
                yield _fine("swept", ", ".join(f"{one.work}: {one.number}" for one in swept) or "nothing to do")
    except Exception as error:  # what a driver says may carry a DSN
        yield _problem("database", type(error).__name__, "look at DEVICES_DATABASE, and whether the server is up")


async def _broker(settings: Settings) -> dict[str, str]:
    path = settings.folder / "broker"
    if settings.broker == EMBEDDED and not path.exists():
        return _fine("broker", "embedded; it runs while `devices serve` does")
    url = path.read_text() if settings.broker == EMBEDDED else settings.broker
    try:
        async with aiomqtt.Client(**broker_options(url), identifier="devices-doctor", timeout=5) as client:
            await client.subscribe(Topics(settings.prefix).kept[0])
    except (aiomqtt.MqttError, OSError) as error:
        return _problem("broker", type(error).__name__, "look at DEVICES_BROKER, its login and whether it is up")
    return _fine("broker", "reached")


def _questions() -> list[tuple[str, Any, str]]:
    waiting = commands.c.status.in_((Status.QUEUED, Status.SEND_FAILED))
    day = datetime.now(UTC) - timedelta(days=1)
    late = select(func.count()).select_from(evidence).where(evidence.c.outcome == "late", evidence.c.at > day)
    refused = select(func.count()).select_from(refused_responses).where(refused_responses.c.at > day)
    offline = select(func.count()).select_from(commands.join(nodes, nodes.c.path == commands.c.node))
    return [
        (
            "uncertain commands",
            select(func.count()).where(
                waiting, commands.c.permit == "WITHDRAWN", commands.c.publish_state.in_(DOUBTFUL)
            ),
            "look at the node, then POST /commands/ID/resend or /cancel",
        ),
        (
            "waiting for a node that is offline",
            offline.where(waiting, commands.c.permit == "ALLOWED", nodes.c.state == "OFFLINE"),
            "they are sent when it is back, and end when they expire",
        ),
        (
            "waiting for a node that was never heard of",
            select(func.count()).where(
                waiting, commands.c.permit == "ALLOWED", commands.c.node.not_in(select(nodes.c.path))
            ),
            "is the path right? It is sent when the node says hello, and ends when it expires",
        ),
        ("late evidence of the last day", late, "GET /commands/ID shows what the node said after the end"),
        (
            "refused messages of the last day",
            refused,
            "GET /refused shows them, with the reason",
        ),
    ]


def _fine(check: str, evidence: str) -> dict[str, str]:
    return {"check": check, "result": "ok", "evidence": evidence, "repair": ""}


def _problem(check: str, evidence: str, repair: str) -> dict[str, str]:
    return {"check": check, "result": "problem", "evidence": evidence, "repair": repair}
