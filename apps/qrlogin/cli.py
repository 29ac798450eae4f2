"""`qrlogin`: serve, ingest, simulate, diagnose, sessions, storm."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import click

from appkit import commands as kit
from appkit.instances import named
from appkit.loops import Loops
from appkit.settings import load
from qrlogin.leaving import end_session
from qrlogin.metrics import Metrics
from qrlogin.places import open_places
from qrlogin.service import running
from qrlogin.settings import Settings
from qrlogin.simulated import SimulatedTelegram
from qrlogin.which import near_telegram, telegram_of


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Telegram login by QR code: one attempt for a user at a time, each session saved exactly once.

    \b
    Try it, with an embedded store and a simulated Telegram:
      qrlogin serve --simulate
      qrlogin diagnose 139883458

    \b
    In production:
      QRLOGIN_STORE=redis://… QRLOGIN_DATABASE=postgresql://… QRLOGIN_API_ID=… QRLOGIN_API_HASH=… \\
      QRLOGIN_KEYS=… QRLOGIN_SIGNING=… QRLOGIN_TOKEN=… qrlogin serve

    Settings come from the environment: QRLOGIN_STORE, _DATABASE, _KEYS, _SIGNING, _API_ID, _API_HASH, _SIMULATED, _HOST,
    _PORT, _METRICS_PORT, _URL, _PROXIES, _TOKEN, _BOT_TOKEN, _ANY_ACCOUNT, _INSTANCE, _FOLDER, _PARALLEL,
    _PASSWORD_TRIES, _STARTS_OF_USER, _STARTS_OF_ADDRESS, and the times _TTL, _LEASE, _RENEW_BEFORE in seconds.
    """


def settings() -> Settings:
    """What is set, or an error that says which setting is wrong."""
    return load(Settings)


@main.command()
@click.option("--simulate", is_flag=True, help="With a simulated Telegram, even if an api_id is set.")
@click.option("--no-ingest", is_flag=True, help="API and page only; `qrlogin ingest` runs elsewhere.")
def serve(simulate: bool, no_ingest: bool) -> None:
    """Run an instance: API, page and ingest. Several may run at once."""
    kit.log_to_stderr()
    kit.run(_serve(named(settings(), "serve"), simulate, no_ingest))


async def _serve(told: Settings, simulate: bool, no_ingest: bool) -> int:
    from qrlogin.api import login_app

    stop = kit.stop_event()
    metrics, loops = Metrics(), Loops()
    async with (
        telegram_of(told, simulate) as (clients, line),
        running(told, clients, loops, metrics, with_ingest=not no_ingest) as service,
    ):
        app = login_app(service, loops, metrics, told, line)
        server = _server(app, told.host, told.port, told.proxies)
        serving = asyncio.create_task(server.serve())
        telegram = "a simulated Telegram" if line else "Telegram"
        click.echo(f"qrlogin: http://{told.host}:{told.port}  ({telegram})", err=True)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        app.state.closing.set()
        server.should_exit = True
        await serving
    return kit.OK if stop.is_set() else kit.ERROR


def _server(app: Any, host: str, port: int, proxies: str = "") -> Any:
    """Forwarded addresses are believed only from proxies that are named: by default uvicorn believes all of loopback."""
    import uvicorn

    class Server(uvicorn.Server):
        """The signals are ours."""

        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            yield

    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level="warning",
            timeout_graceful_shutdown=3,
            lifespan="off",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=proxies or None,
        )
    )


@main.command()
def ingest() -> None:
    """Run an ingest worker alone, beside instances with `--no-ingest` or without."""
    kit.log_to_stderr()
    kit.run(_ingest(near_telegram(named(settings(), "ingest"))))


async def _ingest(told: Settings) -> int:
    stop = kit.stop_event()
    loops, metrics = Loops(), Metrics()
    async with (
        _measured(told, loops, metrics),
        telegram_of(told, False) as (clients, _),
        running(told, clients, loops, metrics),
    ):
        click.echo(f"qrlogin: ingest {told.instance} at work", err=True)
        await stop.wait()
    return kit.OK


@contextlib.asynccontextmanager
async def _measured(told: Settings, loops: Loops, metrics: Metrics) -> AsyncIterator[None]:
    """/health and /metrics of a process that has no API."""
    if not told.metrics_port:
        yield
        return
    from appkit.web import web_app

    try:
        bound = socket.create_server(
            (told.host, told.metrics_port), family=socket.AF_INET6 if ":" in told.host else socket.AF_INET
        )
    except OSError as error:
        raise click.ClickException(
            f"QRLOGIN_METRICS_PORT: {told.host}:{told.metrics_port} cannot be used ({error.strerror});"
            " give each ingest process one of its own, or 0 for none"
        ) from None
    app = web_app("qrlogin", loops, metrics.registry)
    server = _server(app, told.host, told.metrics_port, told.proxies)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    click.echo(f"qrlogin: http://{told.host}:{told.metrics_port}/metrics", err=True)
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        app.state.stop_counting()


@main.command()
@click.option("--port", default=8071, show_default=True, type=click.IntRange(0, 65535))
@click.option("--code-seconds", default=30.0, show_default=True, help="How long a code is good for.")
@click.option("--migrate", default=0.0, show_default=True, help="The share of logins sent to another data centre.")
def simulate(port: int, code_seconds: float, migrate: float) -> None:
    """Run a simulated Telegram; others use it with QRLOGIN_SIMULATED=127.0.0.1:PORT."""
    kit.log_to_stderr()

    async def run() -> int:
        stop = kit.stop_event()
        telegram = SimulatedTelegram(port=port, code_seconds=code_seconds, migrate=migrate)
        async with telegram:
            click.echo(f"simulated Telegram: QRLOGIN_SIMULATED=127.0.0.1:{telegram.port}", err=True)
            await stop.wait()
        return kit.OK

    kit.run(run())


@main.command()
@click.argument("user_id", required=False)
@click.option("--cleanup", is_flag=True, help="Repair what can be repaired, and remove attempts that have ended.")
@kit.output_option
def diagnose(user_id: str | None, cleanup: bool, output: str) -> None:
    """Look for what is wrong with the attempts of USER_ID, or with the whole system; exit code 6 if something is."""
    from qrlogin.diagnose import report

    kit.run(report(settings(), user_id, cleanup, output))


@main.command()
@click.argument("user_id", required=False)
@click.option("--rotate", is_flag=True, help="Seal with the newest key what an older one has sealed.")
@click.option("--revoke", metavar="SESSION_ID", help="Not to be used any more: logged out at Telegram too.")
@click.option("--export", is_flag=True, help="Print the current session of USER_ID, a full credential.")
@click.option("--reason", help="Why it is revoked.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000))
@kit.output_option
def sessions(
    user_id: str | None,
    rotate: bool,
    revoke: str | None,
    export: bool,
    reason: str | None,
    limit: int,
    output: str,
) -> None:
    """Saved sessions, the newest first: whose, which account, sealed with which key; the session itself by --export."""
    if revoke and not reason:
        raise click.UsageError("--revoke needs a --reason")
    if export and user_id is None:
        raise click.UsageError("--export needs a USER_ID")
    told = settings().model_copy(update={"store": ""})
    if export:
        kit.run(_export(told, str(user_id)))
    kit.run(_sessions(told, user_id, rotate, revoke, reason or "", limit, output))


async def _export(told: Settings, user_id: str) -> int:
    async with open_places(told) as places:
        session = await places.saving.session_of(user_id)
    if session is None:
        click.echo(f"user {user_id} has no current session", err=True)
        return kit.NOT_FOUND
    click.echo(session)
    return kit.OK


async def _sessions(
    told: Settings,
    user_id: str | None,
    rotate: bool,
    revoke: str | None,
    reason: str,
    limit: int,
    output: str,
) -> int:
    async with open_places(told) as places:
        if rotate:
            click.echo(f"sealed with the newest key: {await places.saving.rotate()}", err=True)
        if revoke:
            saved = await places.saving.saved(revoke)
            if saved is None:
                click.echo(f"there is no session {revoke}", err=True)
                return kit.NOT_FOUND
            near = near_telegram(told)
            answer = await places.saving.revoke(revoke, reason, "operator")
            click.echo(str(answer), err=True)
            if not answer.reached:
                return kit.REFUSED
            async with telegram_of(near, False) as (clients, _):
                ended = await end_session(clients(saved.session))
            click.echo("logged out at Telegram" if ended else "NOT logged out: Telegram is away", err=True)
        kit.show(await places.saving.listed(user_id, limit), output)
    return kit.OK


@main.command()
@click.option("--users", type=click.IntRange(10, 20_000), help="How many; 1000 if left out.")
@click.option("--short", is_flag=True, help="40 users, about a minute.")
@click.option("--store", type=click.Choice(["valkey", "sqlite"]), default="valkey", show_default=True)
@kit.output_option
def storm(users: int | None, short: bool, store: str, output: str) -> None:
    """Many users log in at once while ingest processes are killed and frozen; then count. Exit code 1 on any violation."""
    from qrlogin.storm import blow

    kit.run(blow(users or (40 if short else 1000), store, output))
