"""`imagebot`: serve, simulate, chat, jobs, refund, resolve, smoke, verify, doctor, storm, speed, failover."""

import asyncio
import logging
import secrets
import sys
from contextlib import AsyncExitStack
from typing import Any

import click
from pydantic import SecretStr

from appkit import commands as kit
from appkit.instances import named
from appkit.settings import load
from imagebot.lifecycle import Status
from imagebot.redaction import redact_logs
from imagebot.services import open_service
from imagebot.settings import Settings
from imagebot.simulators.serving import Secrets, simulated
from imagebot.simulators.trouble import Trouble

CHAT_PORT, KIE_PORT = 8081, 8082
COLUMNS = ["job_id", "user_id", "status", "model", "price", "confirmed_at", "delivery_state", "error_text"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """A Telegram bot that sells pictures: each paid once, made once, delivered once, or refunded.

    \b
    Try it, without any token, with a simulated Telegram and a simulated KIE:
      imagebot serve --simulate           then open http://127.0.0.1:8081/
      imagebot chat                       or chat in this terminal

    \b
    In production:
      PUBLIC_URL=https://… DATABASE_URL=postgresql://… TELEGRAM_BOT_TOKEN=… WEBHOOK_SECRET=… \\
      KIE_API_KEY=… KIE_WEBHOOK_KEY=… ADMIN_IDS=… imagebot serve
    """


def settings(**told: Any) -> Settings:
    """What is set, or an error that says which setting is wrong, without its value."""
    return load(Settings, **told)


def trouble_of(text: str) -> Trouble:
    try:
        return Trouble.parsed(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--trouble") from None


trouble_option = click.option("--trouble", default="", help="duplicate=0.3,fail=0.1,vanish=0.05,… or `storm`.")


@main.command()
@click.option("--simulate", is_flag=True, help="With a simulated Telegram and a simulated KIE; no token needed.")
@trouble_option
def serve(simulate: bool, trouble: str) -> None:
    """Run an instance. Several may run at once on one database: one is ACTIVE."""
    kit.log_to_stderr()
    logging.getLogger("aiogram.event").setLevel(logging.WARNING)
    told = named(settings(), "serve")
    kit.run(_serve(told, trouble_of(trouble) if simulate else None))


async def _serve(told: Settings, trouble: Trouble | None) -> int:
    stop = kit.stop_event()
    try:
        await _run(told, trouble, stop)
    except ValueError as error:
        click.echo(str(error), err=True)
        return kit.USAGE
    except OSError as error:
        click.echo(f"a port cannot be had: {error.strerror}", err=True)
        return kit.ERROR
    return kit.OK


async def _run(told: Settings, trouble: Trouble | None, stop: asyncio.Event) -> None:
    from imagebot.main_render import run

    async with AsyncExitStack() as stack:
        if trouble is not None:
            known = Secrets(f"1:{secrets.token_hex(16)}", secrets.token_hex(16), secrets.token_hex(16))
            ports = (CHAT_PORT, KIE_PORT)
            simulators = await stack.enter_async_context(simulated(known, trouble, ports))
            told = simulated_settings(told, known, simulators.telegram_url, simulators.kie_url)
            click.echo(f"chat with the bot: {simulators.telegram_url}/   (or: imagebot chat)", err=True)
        redact_logs(told)
        await run(told, stop)


def simulated_settings(told: Settings, known: Secrets, telegram: str, kie: str) -> Settings:
    """The settings with everything that the simulators stand for."""
    return told.model_copy(
        update={
            "simulated": True,
            "telegram_api": telegram,
            "kie_api": kie,
            "public_url": f"http://127.0.0.1:{told.port}",
            "telegram_bot_token": SecretStr(known.token),
            "kie_api_key": SecretStr(known.api_key),
            "kie_webhook_key": SecretStr(known.webhook_key),
            "webhook_secret": told.webhook_secret or SecretStr(secrets.token_hex(16)),
            "admin_ids": told.admin_ids or (1,),
            "models": {**told.models, "sora-2-text-to-video": 1500},
            "welcome": told.welcome or 2000,
        }
    )


@main.command()
@click.option("--telegram-port", default=CHAT_PORT, show_default=True)
@click.option("--kie-port", default=KIE_PORT, show_default=True)
@click.option("--seconds", default=4.0, show_default=True, help="How long a picture takes, at most.")
@click.option("--size", default=192, show_default=True, help="Pixels of a picture.")
@click.option("--people/--no-people", default=True, help="Ann, Boris and an admin.")
@trouble_option
def simulate(telegram_port: int, kie_port: int, seconds: float, size: int, people: bool, trouble: str) -> None:
    """Run only the simulators, for instances that are started by themselves.

    The keys are those of TELEGRAM_BOT_TOKEN, KIE_API_KEY and KIE_WEBHOOK_KEY.
    """
    told = settings()
    missing = [name for name in ("telegram_bot_token", "kie_api_key", "kie_webhook_key") if getattr(told, name) is None]
    if missing:
        raise click.UsageError(f"set {', '.join(missing).upper()} to anything, here and for the instances")
    known = Secrets(
        *(getattr(told, name).get_secret_value() for name in ("telegram_bot_token", "kie_api_key", "kie_webhook_key"))
    )

    async def serving() -> None:
        stop = kit.stop_event()
        ports = (telegram_port, kie_port)
        async with simulated(known, trouble_of(trouble), ports, seconds, size, people) as where:
            click.echo(f"TELEGRAM_API={where.telegram_url} KIE_API={where.kie_url}", err=True)
            await stop.wait()

    kit.run(serving())


@main.command()
@click.option("--url", default=f"http://127.0.0.1:{CHAT_PORT}", show_default=True, help="Where the simulator is.")
@click.option("--user", default=1001, show_default=True, help="Who you are: 1001, 1002 (Russian), 1 (the admin).")
def chat(url: str, user: int) -> None:
    """Chat with the simulated bot in this terminal: a text is said, a number presses that button."""
    from imagebot.chat import talk

    kit.run(talk(url, user))


@main.command()
@click.argument("job_id", required=False)
@click.option("--status", type=click.Choice([str(one) for one in Status]), multiple=True)
@click.option("--user", type=int)
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000))
@kit.output_option
def jobs(job_id: str | None, status: tuple[str, ...], user: int | None, limit: int, output: str) -> None:
    """Orders, the newest first; with JOB_ID, everything that has happened to one."""

    async def look() -> int:
        async with open_service(settings()) as database:
            if job_id is None:
                found = await database.jobs.listed(user, tuple(map(Status, status)), limit)
                kit.show(found, output, COLUMNS)
                return kit.OK
            job = await database.storage.find(job_id)
            if job is None:
                click.echo(f"there is no job {job_id}", err=True)
                return kit.NOT_FOUND
            kit.show([job], output, COLUMNS)
            kit.show(
                await database.jobs.timeline(job["job_id"]),
                output,
                ["at", "outcome", "move", "before", "after", "actor", "reason"],
            )
            return kit.OK

    kit.run(_reached(look()))


reason_option = click.option("--reason", required=True, help="It stays in the job's history.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@main.command()
@click.argument("job_id")
@reason_option
@yes_option
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
def refund(job_id: str, reason: str, yes: bool, dry_run: bool) -> None:
    """Give the price of a job back; refused while it is being sent, and for what was given back already."""

    async def give_back() -> int:
        async with open_service(settings()) as database:
            job = await database.jobs.get(job_id)
            if job is None:
                click.echo(f"there is no job {job_id}", err=True)
                return kit.NOT_FOUND
            click.echo(f"{job_id} is at {job['status']}; user {job['user_id']} paid {job['price']}", err=True)
            if dry_run:
                return kit.OK
            if not yes:
                click.confirm("refund it?", abort=True, err=True)
            answer = await database.jobs.refund(job_id, "operator", reason)
            click.echo(str(answer))
            return kit.OK if answer.won else kit.REFUSED

    kit.run(_reached(give_back()))


@main.command()
@click.argument("job_id")
@click.option("--arrived/--not-arrived", required=True, help="Whether the picture is in the chat.")
@yes_option
def resolve(job_id: str, arrived: bool, yes: bool) -> None:
    """Somebody has looked at an uncertain delivery: it is charged, or sent again."""

    async def settle() -> int:
        async with open_service(settings()) as database:
            job = await database.jobs.get(job_id)
            if job is None:
                click.echo(f"there is no job {job_id}", err=True)
                return kit.NOT_FOUND
            if not yes:
                click.confirm(f"{'charge' if arrived else 'send again'} {job_id}?", abort=True, err=True)
            won = await database.storage.resolve(job, arrived, "operator")
            if won and not arrived:
                await database.jobs.watch_again(job_id)
            click.echo(f"{job_id}: {'settled' if won else 'it is not uncertain'}")
            return kit.OK if won else kit.REFUSED

    kit.run(_reached(settle()))


async def _reached(work: Any) -> int:
    """The exit code of a command on the database, also when there is none."""
    try:
        code: int = await work
        return code
    except (OSError, TimeoutError) as error:
        click.echo(f"the database cannot be reached: {type(error).__name__}", err=True)
        return kit.UNREACHABLE


@main.command()
@click.option("--database", type=click.Choice(["postgres", "sqlite"]), default="sqlite", show_default=True)
@kit.output_option
def smoke(database: str, output: str) -> None:
    """S0–S8 against the real application, which is started for it with simulators."""
    from imagebot.smoke import smoked

    kit.run(smoked(database, output))


@main.command()
@kit.output_option
def verify(output: str) -> None:
    """The architecture gate: does the code do what product/truth.yaml says?"""
    from imagebot.verify import findings

    found = findings()
    kit.show(found, output, ["check", "result", "evidence"])
    sys.exit(kit.PROBLEMS if any(one["result"] != "ok" for one in found) else kit.OK)


@main.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired without a question.")
@kit.output_option
def doctor(fix: bool, output: str) -> None:
    """Look for what is wrong: database, guards, ledger, jobs that are stuck, uncertain ones, dead updates, Telegram."""
    from imagebot.doctor import examine

    kit.run(examine(settings(), output, fix))


@main.command()
@click.option("--users", default=2000, show_default=True, type=click.IntRange(1, 20_000))
@click.option("--updates", default=10_000, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--generations", default=3000, show_default=True, type=click.IntRange(1, 30_000))
@click.option("--short", is_flag=True, help="100 users, 500 updates, 150 generations: shows that it runs.")
@click.option("--database", type=click.Choice(["postgres", "sqlite"]), default="postgres", show_default=True)
@kit.output_option
def storm(users: int, updates: int, generations: int, short: bool, database: str, output: str) -> None:
    """Two instances under load, killed again and again, a database that restarts, callbacks twice; then count.

    Exit code 1 if anything that must hold does not.
    """
    from imagebot.storm import blow

    size = (100, 500, 150) if short else (users, updates, generations)
    kit.run(blow(*size, database, output))


@main.command()
@click.option("--rate", default=500, show_default=True, type=click.IntRange(1, 20_000), help="Requests a second.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(1, 300))
@click.option("--database", type=click.Choice(["postgres", "sqlite"]), default="postgres", show_default=True)
@kit.output_option
def speed(rate: int, seconds: float, database: str, output: str) -> None:
    """Fast ack: answer times at a rate, throughput beside two others, and a kill in the middle that loses nothing."""
    from imagebot.measure.speed import measure

    kit.run(measure(rate, seconds, database, output))


@main.command()
@click.option("--times", default=5, show_default=True, type=click.IntRange(1, 50))
@click.option("--database", type=click.Choice(["postgres", "sqlite"]), default="postgres", show_default=True)
@kit.output_option
def failover(times: int, database: str, output: str) -> None:
    """From kill -9 of the ACTIVE instance to the next ACTIVE one, measured several times."""
    from imagebot.measure.failover import measure

    kit.run(measure(times, database, output))


@main.command("other-webhook", hidden=True)
@click.argument("kind", type=click.Choice(["bare", "aiogram"]))
@click.argument("port", type=int)
@click.argument("secret")
def other_webhook(kind: str, port: int, secret: str) -> None:
    """What `speed` measures beside."""
    from imagebot.measure.speed import other_webhook as serve_it

    logging.getLogger("aiogram.event").setLevel(logging.WARNING)
    kit.run(serve_it(kind, port, secret))
