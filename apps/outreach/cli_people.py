"""Commands for people: campaigns, what they have found, why a match scored as it did, reviews, and the stages' switches."""

import getpass
from typing import Any

import click

from appkit import commands as kit
from outreach import reading, reviewing
from outreach.cli_common import told, with_service
from outreach.discovery import NoCampaign, add_campaign, discover
from outreach.feeds import NotAFeed
from outreach.fetching import NotFetched
from outreach.languages import base
from outreach.lifecycle import Progress
from outreach.monitoring import active_processing, stuck_locks
from outreach.service import Service
from outreach.stages import STAGES

by_option = click.option("--by", default=getpass.getuser, help="Who decides; by default your login name.")
stage_argument = click.argument("stage", type=click.Choice(list(STAGES)))


@click.command()
@click.argument("name", required=False)
@click.option("--keyword", "-k", "keywords", multiple=True, help="What it is about; may be given several times.")
@click.option("--ideal", default="", help="The ideal podcast, in a sentence or two.")
@click.option("--language", help="Such as en, fr or pt-BR; without it the campaign's own words tell.")
@kit.output_option
def campaigns(name: str | None, keywords: tuple[str, ...], ideal: str, language: str | None, output: str) -> None:
    """List campaigns, or add one: outreach campaigns "Spring launch" -k startup -k pricing --ideal "…"."""

    async def body(service: Service) -> int:
        if name:
            if not keywords or not ideal.strip():
                click.echo("a campaign needs --keyword and --ideal: without them nothing can be vetted", err=True)
                return kit.USAGE
            if language and base(language) is None:
                click.echo(f"unknown language {language!r}: write a tag such as en, fr or pt-BR", err=True)
                return kit.USAGE
            await add_campaign(service.database, name, keywords, ideal, language)
        rows = await reading.all_campaigns(service.database)
        named = ["id", "name", "keywords", "language", "podcasts", "matches", "ideal_podcast_description"]
        kit.show([{**one, "keywords": ", ".join(one["keywords"])} for one in rows], output, named)
        return kit.OK

    with_service(body)


@click.command(name="discover")
@click.argument("campaign", type=int)
@click.argument("sources", nargs=-1, required=True)
@click.option("--keyword", help="What was searched for.")
def discover_command(campaign: int, sources: tuple[str, ...], keyword: str | None) -> None:
    """Add what SOURCES name to a campaign: feeds, OPML lists, iTunes search results; files, https URLs, or shipped:NAME."""

    async def body(service: Service) -> int:
        code = kit.OK
        for source in sources:
            try:
                done = await discover(service.database, service.fetcher, campaign, source, keyword)
            except NoCampaign as error:
                click.echo(str(error), err=True)
                return kit.NOT_FOUND
            except (NotAFeed, NotFetched) as error:
                click.echo(f"{source}: {error}", err=True)
                code = kit.ERROR
                continue
            click.echo(f"{source}: {done.new} new, {done.known} known")
            for one in done.skipped:
                click.echo(f"  skipped {one}", err=True)
        return code

    with_service(body)


@click.command()
@click.option("--after", default=0, help="Begin after this id.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 200))
@kit.output_option
def podcasts(after: int, limit: int, output: str) -> None:
    """List podcasts."""

    async def body(service: Service) -> None:
        rows, _ = await reading.page_of_podcasts(service.database, after, limit)
        named = ["id", "name", "language", "episode_count", "latest_episode_at", "quality_score", "rss_url"]
        kit.show(rows, output, named)

    with_service(body)


@click.command()
@click.option("--campaign", type=int)
@click.option("--failed", is_flag=True, help="Only those that a stage has dead-lettered.")
@click.option("--after", default=0, help="Begin after this id.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 200))
@kit.output_option
def discoveries(campaign: int | None, failed: bool, after: int, limit: int, output: str) -> None:
    """List what campaigns have found, and how far it has come."""

    async def body(service: Service) -> None:
        rows, _ = await reading.page_of_discoveries(
            service.database, campaign=campaign, failed=failed, after=after, limit=limit
        )
        kit.show(rows, output, ["id", "campaign", "name", "at", "vetting_score", "review_status", "error"])

    with_service(body)


@click.command(name="match")
@click.argument("discovery", type=int)
@kit.output_option
def match_command(discovery: int, output: str) -> None:
    """Tell why a discovery scored as it did, and every error on its way."""

    async def body(service: Service) -> int:
        found = await reading.one_discovery(service.database, discovery)
        if found is None:
            click.echo(f"there is no discovery {discovery}", err=True)
            return kit.NOT_FOUND
        if output != "table":
            kit.show([found], output)
            return kit.OK
        click.echo(f"{found['name']} for {found['campaign']}: {found['at']}")
        click.echo(found["vetting_reasoning"] or "not vetted yet")
        kit.show(found["criteria"], output)
        for one in found["errors"]:
            click.echo(f"error on the way ({one['error_column']}): {one['text']}")
        if found["error"]:
            click.echo(f"error: {found['error']}")
        return kit.OK

    with_service(body)


@click.command()
@click.option("--status", type=click.Choice(["pending", "approved", "rejected", "all"]), default="pending")
@kit.output_option
def reviews(status: str, output: str) -> None:
    """List matches that wait for a person, or that were decided."""

    async def body(service: Service) -> None:
        rows, _ = await reading.page_of_reviews(service.database, status=None if status == "all" else status, limit=200)
        kit.show(rows, output, ["id", "campaign", "podcast", "score", "status", "decided_by", "reasoning"])

    with_service(body)


def _deciding(name: str, approve: bool) -> click.Command:
    @click.command(name=name, help=f"{name.capitalize()} a match, by the id of its review task.")
    @click.argument("task", type=int)
    @click.option("--reason", default="", help="Why; it stays with the decision.")
    @by_option
    def command(task: int, reason: str, by: str) -> None:
        async def body(service: Service) -> int:
            return told(await reviewing.decide(service.database, task, approve, by, reason))

        with_service(body)

    return command


def _switching(name: str, pause: bool, meaning: str) -> click.Command:
    @click.command(name=name, help=meaning)
    @click.argument("stage", type=click.Choice([*STAGES, "transcription"]))
    @click.option("--reason", default="")
    @by_option
    def command(stage: str, reason: str, by: str) -> None:
        async def body(service: Service) -> int:
            return told(await reviewing.switch(service.database, stage, pause, by, reason))

        with_service(body)

    return command


@click.command()
@stage_argument
@click.argument("discoveries", type=int, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All dead letters of the stage.")
def retry(stage: str, discoveries: tuple[int, ...], everything: bool) -> None:
    """Retry dead-lettered rows of a stage, with all their attempts, and with the other discoveries of the same podcast."""
    if bool(discoveries) == everything:
        raise click.UsageError("name discoveries by their ids, or say --all")

    async def body(service: Service) -> int:
        keys = None if everything else list(discoveries)
        answers = await reviewing.try_again(service.database, service.claiming, stage, keys)
        if everything:
            click.echo(f"{sum(answer.won for answer in answers)} are tried again")
            return kit.OK
        return max([told(answer) for answer in answers])

    with_service(body)


@click.command(name="stages")
@kit.output_option
def stages_command(output: str) -> None:
    """List the stages: how far their rows are, and which are paused, until when and why."""

    async def body(service: Service) -> None:
        found = (await reading.overview(service.database))["stages"]
        rows = [
            {
                "stage": one["stage"],
                **{status: one["counts"].get(status, 0) for status in Progress},
                "paused": "yes" if one["paused"] else "",
                "until": one["until"],
                "by": one["changed_by"] if one["paused"] else "",
                "why": one["reason"] if one["paused"] else "",
            }
            for one in found
        ]
        kit.show(rows, output)

    with_service(body)


@click.command()
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 200))
@kit.output_option
def calls(limit: int, output: str) -> None:
    """List the latest AI calls: for what, with which end, tokens and cost."""

    async def body(service: Service) -> None:
        named = [
            "id",
            "began_at",
            "stage",
            "campaign_id",
            "media_id",
            "model",
            "outcome",
            "tokens_in",
            "tokens_out",
        ]
        rows = await reading.calls(service.database, limit)
        kit.show(rows, output, [*named, "cost", "currency", "message"])

    with_service(body)


@click.command()
@kit.output_option
def active(output: str) -> None:
    """Show what is being processed, by whom."""
    _locks(active_processing, output)


@click.command()
@kit.output_option
def stuck(output: str) -> None:
    """Show locks that hold nothing any more; exit code 6 if there are any. Workers take such rows over by themselves."""
    _locks(stuck_locks, output, kit.PROBLEMS)


def _locks(look: Any, output: str, found: int = kit.OK) -> None:
    async def body(service: Service) -> int:
        rows = await look(service.database, service.claiming)
        kit.show([one.shown() for one in rows], output)
        return found if rows else kit.OK

    with_service(body)


people = (
    campaigns,
    discover_command,
    podcasts,
    discoveries,
    match_command,
    reviews,
    _deciding("approve", True),
    _deciding("reject", False),
    _switching("pause", True, "Pause a stage: what is held is finished, nothing more is begun."),
    _switching("resume", False, "Let a paused stage go on."),
    retry,
    stages_command,
    calls,
    active,
    stuck,
)
