"""`devices`: serve, submit, watch, simulate, doctor, storm, speed. Each imports what it needs, so that a start is quick."""

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import click

from appkit import commands as kit
from appkit.instances import named
from appkit.settings import load
from devices.settings import EMBEDDED, Settings

if TYPE_CHECKING:
    import httpx

    from devices.simulator import Trouble

AWAY = 60.0
"""Seconds for which a service that has answered before is waited for."""


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
    return load(Settings)


@main.command()
@click.option("--simulate", type=click.IntRange(1, 2000), help="Also run this many simulated nodes.")
@click.option("--trouble", default="", help="What goes wrong with them: drop=0.1,duplicate=0.2 or `storm`.")
def serve(simulate: int | None, trouble: str) -> None:
    """Run an instance: API, page, dispatcher, listener, upkeep. Several may run at once."""
    from devices.serving import serve as serving

    kit.log_to_stderr()
    told = named(settings(), "serve")
    kit.run(serving(told, simulate, _trouble(trouble)))


def _broker_of(told: Settings) -> str:
    if told.broker != EMBEDDED:
        return told.broker
    path = told.folder / "broker"
    if not path.exists():
        raise click.ClickException(f"no embedded broker in {told.folder}: is `devices serve` running here?")
    return path.read_text()


def _trouble(text: str) -> "Trouble":
    from devices.simulator import Trouble

    try:
        return Trouble.parsed(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--trouble") from None


@main.command()
@click.option("--nodes", default=20, show_default=True, type=click.IntRange(1, 2000))
@click.option("--trouble", default="", help="drop=0.1,duplicate=0.2,reorder=0.1,reboot=0.01,offline=0.01,… or `storm`.")
def simulate(nodes: int, trouble: str) -> None:
    """Run nodes without hardware, on the broker of the settings."""
    from devices.serving import simulated

    kit.log_to_stderr()
    told = settings()
    kit.run(simulated(told, _broker_of(told), nodes, _trouble(trouble)))


def _client(told: Settings, url: str | None) -> "httpx.AsyncClient":
    import httpx

    headers = {"Authorization": f"Bearer {told.token.get_secret_value()}"} if told.token else {}
    base = url or f"http://{told.host}:{told.port}"
    return httpx.AsyncClient(base_url=base, headers=headers, timeout=30, trust_env=False)


url_option = click.option("--url", help="Where the service is; by default where DEVICES_HOST and DEVICES_PORT say.")


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
    wanted = {name: told[name] for name in ("cmd_id", "node", "channel", "cmd", "params", "valid_for", "urgent")}
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


async def _watch(client: "httpx.AsyncClient", cmd_id: str, output: str) -> int:
    """Until it has ended; a service that is away for a moment is asked again, for what has happened since."""
    import httpx

    last, away_since = "", None
    while True:
        try:
            headers = {"Last-Event-ID": last} if last else {}
            patience = httpx.Timeout(30, read=60)
            async with client.stream("GET", f"/commands/{cmd_id}/events", headers=headers, timeout=patience) as stream:
                away_since = None
                if stream.is_error:
                    await stream.aread()
                    return _problem(stream)
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        happened = json.loads(line[6:])
                        last = str(happened["id"])
                        click.echo(_told(happened) if output == "table" else json.dumps(happened))
            found = (await client.get(f"/commands/{cmd_id}")).json()
            if found["ended"]:
                break
        except httpx.HTTPError as error:
            away_since = away_since or time.monotonic()
            if not last or time.monotonic() - away_since > AWAY:
                click.echo(f"the service cannot be reached: {error}", err=True)
                return kit.UNREACHABLE
            await asyncio.sleep(0.5)
    click.echo(f"{cmd_id} is at {found['status']}", err=True)
    return kit.OK if found["status"] in ("DONE", "NO_EFFECT") else kit.ERROR


def _told(happened: dict[str, Any]) -> str:
    who = f" by {happened['actor']}" if happened["actor"] else ""
    return f"{happened['at']}  {happened['outcome']:8} {happened['move']} → {happened['after']}{who}"


async def _ask(call: Any) -> "httpx.Response | None":
    import httpx

    try:
        answer: httpx.Response = await call
        return answer
    except httpx.HTTPError as error:
        click.echo(f"the service cannot be reached: {error}", err=True)
        return None


def _problem(answer: "httpx.Response") -> int:
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
@click.option("--short", is_flag=True, help="600 commands to 30 nodes, in about two minutes.")
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
