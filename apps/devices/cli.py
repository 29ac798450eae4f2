"""`devices`: serve, submit, watch, simulate, doctor, storm."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import httpx
import uvicorn
from pydantic import ValidationError

from appkit import commands as kit
from appkit.loops import Loops
from devices.api import device_app
from devices.messages import Topics
from devices.metrics import Metrics
from devices.service import running
from devices.settings import EMBEDDED, Settings, broker_options
from devices.simulator import Simulator, Trouble, paths
from raceproof.testing import MqttServer, mqtt

TERMINAL = ("DONE", "NO_EFFECT", "ERROR", "INVALID", "BUSY", "TIMEOUT")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Commands to MQTT nodes, none lost and none sent twice without anybody knowing.

    \b
    Try it, with an embedded broker, an embedded database and twenty simulated nodes:
      devices serve --simulate 20
      devices submit gh-1/zone-1/node-1 pump dose '{"ml": 5}' --watch

    \b
    In production:
      DEVICES_DATABASE=postgresql://… DEVICES_BROKER=mqtt://… DEVICES_SECRET=… devices serve

    Settings come from the environment: DEVICES_DATABASE, _BROKER, _PREFIX, _SECRET, _NODE_SECRETS, _HOST, _PORT, _TOKEN,
    _INSTANCE, _FOLDER, and the times _PUBACK, _ANSWER, _VALID, _MEMORY, _SILENCE in seconds.
    """


def settings() -> Settings:
    """What is set, or an error that says which setting is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        for one in error.errors():
            name = "DEVICES_" + "_".join(map(str, one["loc"])).upper() if one["loc"] else "settings"
            click.echo(f"{name}: {one['msg'].removeprefix('Value error, ')}", err=True)
        sys.exit(kit.USAGE)


@main.command()
@click.option("--simulate", type=click.IntRange(1, 2000), help="Run so many simulated nodes beside it.")
@click.option("--trouble", default="", help="What goes wrong with them: drop=0.1,duplicate=0.2 or `storm`.")
def serve(simulate: int | None, trouble: str) -> None:
    """Run an instance: API, page, dispatcher, listener, upkeep. Several may run at once."""
    kit.log_to_stderr()
    told = settings()
    kit.run(_serve(told, simulate, _trouble(trouble)))


async def _serve(told: Settings, simulate: int | None, trouble: Trouble) -> int:
    stop = kit.stop_event()
    metrics, loops = Metrics(), Loops()
    async with _broker(told) as broker, running(told, broker, loops, metrics) as (service, follower):
        token = told.token.get_secret_value() if told.token else None
        app = device_app(service, loops, metrics, follower, token)
        server = _Server(
            uvicorn.Config(
                app,
                host=told.host,
                port=told.port,
                log_level="warning",
                timeout_graceful_shutdown=3,
                lifespan="off",
            )
        )
        serving = asyncio.create_task(server.serve())
        simulating = [asyncio.create_task(_simulated(told, broker, simulate, trouble))] if simulate else []
        click.echo(f"devices: http://{told.host}:{told.port}  (broker {_without_login(broker)})", err=True)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        for task in simulating:
            task.cancel()
        await serving
    return kit.OK if stop.is_set() else kit.ERROR


class _Server(uvicorn.Server):
    """The signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def _broker(told: Settings) -> AsyncIterator[str]:
    """The broker's URL; an embedded one tells it to others by a file in the folder."""
    if told.broker != EMBEDDED:
        yield told.broker
        return
    path = told.folder / "broker"
    told.folder.mkdir(parents=True, exist_ok=True)
    server: MqttServer = await asyncio.to_thread(mqtt)
    path.write_text(server.url)
    try:
        yield server.url
    finally:
        path.unlink(missing_ok=True)
        await asyncio.to_thread(server.close)


def _broker_of(told: Settings) -> str:
    if told.broker != EMBEDDED:
        return told.broker
    path = told.folder / "broker"
    if not path.exists():
        raise click.ClickException(f"no embedded broker in {told.folder}: is `devices serve` running here?")
    return path.read_text()


def _without_login(url: str) -> str:
    options = broker_options(url)
    return f"{options['hostname']}:{options['port']}"


def _trouble(text: str) -> Trouble:
    try:
        return Trouble.parsed(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--trouble") from None


@main.command()
@click.option("--nodes", default=20, show_default=True, type=click.IntRange(1, 2000))
@click.option(
    "--trouble", default="", help="drop=0.1,duplicate=0.2,reorder=0.1,reboot=0.01,offline=0.01,… or `storm`."
)
def simulate(nodes: int, trouble: str) -> None:
    """Run nodes without hardware, on the broker of the settings."""
    kit.log_to_stderr()
    told = settings()
    kit.run(_simulated(told, _broker_of(told), nodes, _trouble(trouble)))


async def _simulated(told: Settings, broker: str, nodes: int, trouble: Trouble) -> None:
    simulator = Simulator(broker_options(broker), Topics(told.prefix), told.secret_of, paths(nodes), trouble)
    click.echo(f"simulating {nodes} nodes, {', '.join(list(simulator.nodes)[:2])}, …", err=True)
    await simulator.run()


def _client(told: Settings, url: str | None) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {told.token.get_secret_value()}"} if told.token else {}
    base = url or f"http://{told.host}:{told.port}"
    return httpx.AsyncClient(base_url=base, headers=headers, timeout=30, trust_env=False)


url_option = click.option(
    "--url", help="Where the service is; by default where DEVICES_HOST and DEVICES_PORT say."
)


@main.command()
@click.argument("node")
@click.argument("channel")
@click.argument("cmd")
@click.argument("params", default="{}")
@click.option("--id", "cmd_id", help="Your own id: to submit it again is the same command.")
@click.option("--valid-for", type=float, help="Seconds for which it may be published.")
@click.option("--urgent", is_flag=True, help="A stop: clears what waits in its channel and comes first.")
@click.option("--watch", is_flag=True, help="Follow it until it has ended.")
@url_option
@kit.output_option
def submit(**told: Any) -> None:
    """Submit a command: NODE is greenhouse/zone/node, PARAMS a JSON object."""
    try:
        params = json.loads(told["params"])
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="PARAMS") from None
    kit.run(_submit(settings(), {**told, "params": params}))


async def _submit(defaults: Settings, told: dict[str, Any]) -> int:
    wanted = {
        name: told[name] for name in ("cmd_id", "node", "channel", "cmd", "params", "valid_for", "urgent")
    }
    async with _client(defaults, told["url"]) as client:
        answer = await _ask(client.post("/commands", json=wanted))
        if answer is None:
            return kit.UNREACHABLE
        if answer.status_code >= 400:
            return _problem(answer)
        row = answer.json()
        kit.show([row], told["output"], ["cmd_id", "node", "channel", "cmd", "status"])
        return await _watch(client, row["cmd_id"], told["output"]) if told["watch"] else kit.OK


@main.command()
@click.argument("cmd_id")
@url_option
@kit.output_option
def watch(cmd_id: str, url: str | None, output: str) -> None:
    """Follow a command until it has ended; exit code 0 for DONE and NO_EFFECT, 1 otherwise."""

    async def follow() -> int:
        async with _client(settings(), url) as client:
            return await _watch(client, cmd_id, output)

    kit.run(follow())


async def _watch(client: httpx.AsyncClient, cmd_id: str, output: str) -> int:
    try:
        async with client.stream("GET", f"/commands/{cmd_id}/events", timeout=None) as stream:
            if stream.status_code == 404:
                click.echo(f"there is no command {cmd_id}", err=True)
                return kit.NOT_FOUND
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    happened = json.loads(line[6:])
                    if output == "table":
                        who = f" by {happened['actor']}" if happened["actor"] else ""
                        click.echo(
                            f"{happened['at']}  {happened['outcome']:8} {happened['move']} → {happened['after']}{who}"
                        )
                    else:
                        click.echo(json.dumps(happened))
        found = (await client.get(f"/commands/{cmd_id}")).json()
    except httpx.HTTPError as error:
        click.echo(f"the service cannot be reached: {error}", err=True)
        return kit.UNREACHABLE
    click.echo(f"{cmd_id} is at {found['status']}", err=True)
    return kit.OK if found["status"] in ("DONE", "NO_EFFECT") else kit.ERROR


async def _ask(call: Any) -> httpx.Response | None:
    try:
        answer: httpx.Response = await call
        return answer
    except httpx.HTTPError as error:
        click.echo(f"the service cannot be reached: {error}", err=True)
        return None


def _problem(answer: httpx.Response) -> int:
    told = answer.json()
    click.echo(told.get("detail") or told.get("error") or told, err=True)
    for one in told.get("problems", ()):
        click.echo(f"  {'.'.join(one['where'][1:])}: {one['problem']}", err=True)
    return {404: kit.NOT_FOUND, 409: kit.REFUSED, 422: kit.USAGE}.get(answer.status_code, kit.ERROR)


@main.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired without a question.")
@kit.output_option
def doctor(fix: bool, output: str) -> None:
    """Look for what is wrong: broker, database, guards, commands that are stuck, doubts, refused messages."""
    from devices.doctor import examine

    kit.run(examine(settings(), output, fix))


@main.command()
@click.option("--commands", "number", default=10_000, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--nodes", default=200, show_default=True, type=click.IntRange(1, 2000))
@click.option("--short", is_flag=True, help="600 commands to 30 nodes: shows that it runs.")
@click.option("--database", type=click.Choice(["postgres", "sqlite"]), default="postgres", show_default=True)
@kit.output_option
def storm(number: int, nodes: int, short: bool, database: str, output: str) -> None:
    """Two instances under load, killed again and again, a broker that restarts, nodes that misbehave; then count.

    Exit code 1 if anything that must hold does not.
    """
    from devices.storm import blow

    kit.run(blow(600 if short else number, 30 if short else nodes, database, output))


@main.command()
@click.option("--commands", "number", default=5000, show_default=True, type=click.IntRange(10, 100_000))
@click.option("--database", type=click.Choice(["postgres", "sqlite"]), default="postgres", show_default=True)
@kit.output_option
def speed(number: int, database: str, output: str) -> None:
    """Commands a second and the time from submit to SENT, beside a bare aiomqtt publisher in the same run."""
    from devices.speed import measure

    kit.run(measure(number, database, output))


HERE = Path(__file__).parent
