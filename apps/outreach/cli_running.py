"""Commands that run something: the service, one pass, the simulated provider, the migration of claims, storm and speed."""

from dataclasses import fields

import click

from appkit import commands as kit
from appkit.instances import named
from appkit.loops import Loops
from outreach import campaign_media_discoveries as the_note
from outreach.cli_common import settings_or_exit, with_service
from outreach.forms import Form
from outreach.metrics import Metrics
from outreach.opening import Purpose, opened
from outreach.service import Service, running
from outreach.stages import STAGES


@click.command()
@click.option("--simulate", is_flag=True, help="Campaigns on the shipped feeds, and a simulated AI provider.")
@click.option("--work/--no-work", default=True, help="Whether this process works, or only shows.")
def serve(simulate: bool, work: bool) -> None:
    """Run an instance: page, API and stages. Several may run at once."""
    from outreach.serving import serve_until_told

    kit.log_to_stderr()
    kit.run(serve_until_told(simulate, work))


@click.command()
def work() -> None:
    """Run the stages without page and API, until SIGTERM. Several may run at once."""
    kit.log_to_stderr()
    told = named(settings_or_exit(), "work")

    async def body() -> int:
        stop = kit.stop_event()
        async with running(told, Loops(), Metrics(), Purpose.WORK, show=False) as service:
            form = service.claiming.form
            click.echo(f"outreach: {told.instance} works, {told.rhythm}, claims in {form}", err=True)
            await stop.wait()
        return kit.OK

    kit.run(body())


@click.command(name="run")
@click.option("--stage", type=click.Choice(list(STAGES)), help="Only this one.")
def run_once(stage: str | None) -> None:
    """Run the stages once, one after the other, until there is nothing left to do now."""

    async def body(service: Service) -> None:
        for one in service.claiming.stages.values():
            if stage in (None, one.name):
                worker = await service.manager.run_until_idle(one)
                click.echo(f"{one.name}: {worker.finished} worked on, {worker.lost} lost to others")

    with_service(body, Purpose.WORK)


@click.command()
@click.option("--stale-minutes", type=float, help="Take locks for stale earlier or later than workers do.")
def cleanup(stale_minutes: float | None) -> None:
    """Free locks of workers that have died. Nothing depends on it: the next worker takes such rows over."""

    async def body(service: Service) -> None:
        for stage in service.claiming.stages.values():
            freed = await the_note.cleanup_stale_locks(stage, stale_minutes)
            click.echo(f"{stage.name}: {freed} freed")

    with_service(body)


@click.command()
def migrate() -> None:
    """Bring the database up to date: tables, columns for claims, guards. Only this and `serve` change the schema.

    Workers may go on meanwhile. Each change waits two seconds for its table and then lets others use it, again and again.
    With OUTREACH_FORM=marker, a campaign_media_discoveries that is there already is adopted as it is.
    """

    async def body() -> int:
        async with opened(settings_or_exit(), Purpose.MIGRATE) as found:
            click.echo(f"done: {', '.join(found.done)}" if found.done else "everything was there")
            if found.claiming.adopted:
                click.echo("campaign_media_discoveries is adopted as it is", err=True)
            elif found.done == ("002_claim_columns",):
                click.echo("rows under a marker stay their holder's until it ends: see `outreach active`", err=True)
        return kit.OK

    kit.run(body())


@click.command()
@click.option("--port", default=8091, show_default=True)
@click.option("--key", envvar="OUTREACH_AI_KEY", required=True, help="What clients must say; OUTREACH_AI_KEY.")
@click.option("--slow", default=0.4, show_default=True, help="Seconds for an answer, on average.")
@click.option("--fail", default=0.1, show_default=True, help="The share of calls that fail.")
@click.option("--twice", default=0.05, show_default=True, help="The share of answers that come twice.")
@click.option(
    "--wrong",
    "more",
    multiple=True,
    help="A share of contents: poison, fenced, garbled, refuses, cut, rejects=0.1",
)
@click.option("--seed", "seed_", default=1, show_default=True)
def provider(port: int, key: str, slow: float, fail: float, twice: float, more: tuple[str, ...], seed_: int) -> None:
    """Run the simulated AI provider alone: POST /v1/chat/completions, GET /ledger, GET /log, POST /control."""
    from outreach.provider import Wrong
    from outreach.serving import run_provider

    known = {one.name for one in fields(Wrong)}
    shares = dict(one.partition("=")[::2] for one in more)
    if set(shares) - known or not all(share.replace(".", "", 1).isdecimal() for share in shares.values()):
        raise click.UsageError(f"--wrong is one of {', '.join(sorted(known))}, with a share: fenced=0.1")
    wrong = Wrong(fail=fail, twice=twice, **{name: float(share) for name, share in shares.items()})
    run_provider(port, key, slow, wrong, seed_)


@click.command()
@click.option("--podcasts", "number", default=5000, show_default=True, type=click.IntRange(10, 100_000))
@click.option("--campaigns", "of", default=3, show_default=True, type=click.IntRange(1, 20))
@click.option("--workers", default=4, show_default=True, type=click.IntRange(1, 32))
@click.option("--short", is_flag=True, help="60 podcasts: shows that it runs.")
@click.option("--form", type=click.Choice([*Form, "both"]), default="both", show_default=True)
@click.option("--database", type=click.Choice(["postgres", "sqlite"]), default="postgres", show_default=True)
@kit.output_option
def storm(number: int, of: int, workers: int, short: bool, form: str, database: str, output: str) -> None:
    """Worker processes under load, killed again and again, a provider that fails; then count.

    With `both`, half of the workers use markers and half use columns. Exit code 1 if anything that must hold does not.
    """
    from outreach.storm import Plan, blow

    plan = Plan(60 if short else number, of, workers, form, database, short)
    kit.run(blow(plan, output))


@click.command()
@click.option("--rows", default=5000, show_default=True, type=click.IntRange(100, 200_000))
@kit.output_option
def speed(rows: int, output: str) -> None:
    """Rows a second through claim, work, finish, beside the note's own SQL run by hand in the same run."""
    from outreach.speed import measure

    kit.run(measure(rows, output))


@click.command()
@click.option("--fix", is_flag=True, help="Free what can be freed without a question.")
@kit.output_option
def doctor(fix: bool, output: str) -> None:
    """Look for what is wrong: schema, guards, stuck locks, dead-lettered rows, paused stages."""
    from outreach.doctor import examine

    async def body(service: Service) -> int:
        return await examine(service, output, fix)

    with_service(body)


running_commands = (serve, work, run_once, cleanup, migrate, provider, storm, speed, doctor)
