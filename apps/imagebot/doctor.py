"""What is wrong, with the evidence and what to do about it."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import aiohttp
from sqlalchemy import func, select, text

from appkit import commands as kit
from appkit.database import store_now
from imagebot.lifecycle import UNDER_WAY, Job, Status, TopUp, Watch, callbacks, notices, updates
from imagebot.services import open_service
from imagebot.settings import Settings
from imagebot.tables import generation_jobs, topups, transactions, user_balances
from raceproof.ops.sweep import sweep
from raceproof.ops.verify import verify

Finding = dict[str, str]


async def examine(settings: Settings, output: str, fix: bool) -> int:
    """Print what was found; exit code 6 if there are problems."""
    findings = [one async for one in _findings(settings, fix)]
    kit.show(findings, output, ["check", "result", "evidence", "repair"])
    return kit.PROBLEMS if any(one["result"] == "problem" for one in findings) else kit.OK


async def _findings(settings: Settings, fix: bool) -> AsyncIterator[Finding]:
    try:
        settings.must_be_complete()
        yield _fine("settings", "complete")
    except ValueError as error:
        yield _problem("settings", str(error), "see apps/imagebot/README.md, Going live")
    yield await _telegram(settings)
    try:
        async with open_service(settings) as service:
            yield _fine("database", service.store.dialect)
            for lifecycle in (Job, Watch, TopUp):
                wrong = [one for one in await verify(service.store, lifecycle) if one.level != "ok"]
                for one in wrong:
                    told = f"{one.what} {one.evidence}".strip()
                    yield _problem(f"{lifecycle.__name__} in the database", told, one.repair)
                if not wrong:
                    yield _fine(f"{lifecycle.__name__} in the database", "as declared, with its guards")
            async with service.database.read() as connection:
                now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
                for check, statement, repair in (*_stuck(settings, now), *_questions()):
                    number = (await connection.execute(statement)).scalar_one()
                    yield _problem(check, f"{number}", repair) if number else _fine(check, "none")
            if fix:
                for lifecycle in (Job, Watch):
                    swept = await sweep(service.store, lifecycle)
                    told = ", ".join(f"{one.work}: {one.number}" for one in swept)
                    yield _fine(f"swept {lifecycle.__name__}", told or "nothing to do")
    except Exception as error:  # what a driver says may carry a DSN
        yield _problem("database", type(error).__name__, "look at DATABASE_URL, and whether the server is up")


async def _telegram(settings: Settings) -> Finding:
    """Whether Telegram knows the bot, and where it sends updates."""
    if settings.telegram_bot_token is None:
        return _fine("telegram", "not asked: TELEGRAM_BOT_TOKEN is not set")
    base = f"{settings.telegram_api}/bot{settings.telegram_bot_token.get_secret_value()}"
    try:
        async with (
            aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=10)) as http,
            http.get(f"{base}/getWebhookInfo") as answer,
        ):
            told = await answer.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return _problem("telegram", type(error).__name__, "look at TELEGRAM_API and the network")
    if not told.get("ok"):
        return _problem("telegram", str(told.get("description")), "look at TELEGRAM_BOT_TOKEN")
    info: dict[str, Any] = told["result"]
    waiting, last = info.get("pending_update_count", 0), info.get("last_error_message", "")
    if not info.get("url"):
        return _problem("telegram", "no webhook is set", "start an instance: the ACTIVE one sets it")
    if last:
        return _problem("telegram", f"{waiting} updates wait; last error: {last}", "look at PUBLIC_URL and /health")
    return _fine("telegram", f"a webhook is set, {waiting} updates wait")


def _stuck(settings: Settings, now: datetime) -> list[tuple[str, Any, str]]:
    """Paid jobs that are past the deadline of where they are: an instance ends these by itself."""
    jobs = generation_jobs.c
    making = tuple(one for one in UNDER_WAY if one is not Status.READY)
    repair = "is an instance running? see its log; imagebot refund JOB --reason …"
    return [
        (
            f"jobs that are stuck at {name}",
            select(func.count())
            .select_from(generation_jobs)
            .where(jobs.status.in_(statuses), since < now - timedelta(seconds=limit)),
            repair,
        )
        for name, statuses, since, limit in (
            ("KIE", making, jobs.confirmed_at, 2 * settings.generation_limit),
            (
                "ready",
                (Status.READY,),
                func.coalesce(jobs.ready_at, jobs.confirmed_at),
                settings.delivery_limit,
            ),
            ("uncertain", (Status.UNCERTAIN,), jobs.doubted_at, settings.uncertain_limit),
        )
    ]


def _questions() -> list[tuple[str, Any, str]]:
    def jobs(*statuses: Status) -> Any:
        return select(func.count()).select_from(generation_jobs).where(generation_jobs.c.status.in_(statuses))

    sums = (
        select(
            transactions.c.user_id,
            func.sum(transactions.c.amount).label("balance"),
            func.sum(transactions.c.held).label("held"),
        )
        .group_by(transactions.c.user_id)
        .subquery()
    )
    differs = (
        select(func.count())
        .select_from(user_balances.outerjoin(sums, sums.c.user_id == user_balances.c.user_id))
        .where(
            (user_balances.c.balance != func.coalesce(sums.c.balance, 0))
            | (user_balances.c.held != func.coalesce(sums.c.held, 0))
        )
    )
    dead = "SELECT count(*) FROM {} WHERE status = 'dead'"  # names of our own declarations
    return [
        ("balances that differ from their ledger", differs, "compare transactions of that user_id"),
        (
            "uncertain deliveries",
            jobs(Status.UNCERTAIN),
            "imagebot jobs --status uncertain; look into the chat, then imagebot resolve JOB --arrived|--not-arrived",
        ),
        (
            "tasks that may have been made",
            jobs(Status.CREATE_UNKNOWN),
            "they end by themselves: a callback names the task, or the money goes back",
        ),
        (
            "top-ups that wait for an admin",
            select(func.count()).select_from(topups).where(topups.c.status == "requested"),
            "/pending in the bot",
        ),
        *(
            (
                f"{inbox.table} that were given up",
                text(dead.format(inbox.table)),
                f"raceproof inbox --app imagebot.lifecycle {name} --dead",
            )
            for name, inbox in (("updates", updates), ("callbacks", callbacks), ("notices", notices))
        ),
    ]


def _fine(check: str, evidence: str) -> Finding:
    return {"check": check, "result": "ok", "evidence": evidence, "repair": ""}


def _problem(check: str, evidence: str, repair: str) -> Finding:
    return {"check": check, "result": "problem", "evidence": evidence, "repair": repair}
