"""Everything that runs: the stages, by the clock or whenever there is work, and figures; in one process or in many."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from appkit.database import Database
from appkit.installed import Installed
from appkit.loops import Loop, Loops
from appkit.working import scheduled, working
from outreach import campaign_media_discoveries as the_note
from outreach.ai import Ai, BuiltIn, OpenAiCompatible
from outreach.facts import Facts
from outreach.fetching import Fetcher
from outreach.forms import Claiming
from outreach.manager import Manager
from outreach.metrics import Metrics
from outreach.monitoring import active_processing, stuck_locks
from outreach.opening import Purpose, opened
from outreach.reading import Follower, overview
from outreach.settings import Settings
from outreach.stages import STAGES
from outreach.transcribing import EVERY, TASK, transcriber
from outreach.working import Working
from raceproof import Scheduler

log = logging.getLogger("outreach")

HEALTH_CHECK = 1800.0


@dataclass(frozen=True, slots=True)
class Service:
    """What the HTTP side and commands need."""

    database: Database
    facts: Facts
    lacks: Installed
    claiming: Claiming
    fetcher: Fetcher
    manager: Manager
    follower: Follower
    settings: Settings


@asynccontextmanager
async def prepared(settings: Settings, metrics: Metrics, purpose: Purpose = Purpose.LOOK) -> AsyncIterator[Service]:
    """The service with nothing running yet."""
    async with opened(settings, purpose) as found:
        database, claiming = found.database, found.claiming
        fetcher = Fetcher(settings.feed_timeout, settings.feed_bytes)
        the_note.use(database, claiming)
        ai: Ai = OpenAiCompatible(settings, database) if settings.ai_url else BuiltIn()
        try:
            highest = found.facts.highest_score
            working = Working(database, claiming, ai, fetcher, highest, settings.ai_pause)
            manager = Manager(database, claiming, settings, working, metrics)
            yield Service(
                database,
                found.facts,
                found.lacks,
                claiming,
                fetcher,
                manager,
                Follower(database),
                settings,
            )
        finally:
            if isinstance(ai, OpenAiCompatible):
                await ai.close()


@asynccontextmanager
async def running(
    settings: Settings,
    loops: Loops,
    metrics: Metrics,
    purpose: Purpose = Purpose.SERVE,
    *,
    work: bool = True,
    show: bool = True,
) -> AsyncIterator[Service]:
    """The service at work until the block ends; then it acquires nothing more and gives back what it has."""
    async with prepared(settings, metrics, purpose) as service, loops:
        if service.lacks.changed:
            log.warning("%s: another release, or a person, has changed it", service.lacks)
        loops.watch(settings.database_url)
        scheduler = _scheduler(service)
        workers = {}
        if work and settings.rhythm == "continuous":
            stages = service.claiming.stages.values()
            workers = {stage.name: service.manager.worker(stage) for stage in stages}
            workers["transcription"] = transcriber(service.database, settings, service.fetcher)
        for name, worker in workers.items():
            loops.start(name, working(worker))
        if work:
            loops.start("schedule", scheduled(scheduler))
        if show:
            loops.start("figures", lambda loop: _measure(loop, service, metrics))
            loops.start("follower", service.follower.run)
        try:
            yield service
        finally:
            scheduler.stop()
            service.manager.stop()
            for worker in workers.values():
                worker.stop()
            await loops.drain("schedule", *workers, seconds=settings.drain + 5)


def _scheduler(service: Service) -> Scheduler:
    """By the clock, each kind never twice at once over all processes; the last run is kept in the store."""
    scheduler = Scheduler(service.database.store, by=service.settings.instance)
    if service.settings.rhythm == "clock":
        for stage in service.claiming.stages.values():
            scheduler.every(stage.every, stage.task, partial(service.manager.run_by_the_clock, stage))
        scheduler.every(EVERY, TASK, partial(_transcribe, service))
    scheduler.every(HEALTH_CHECK, "health_check", lambda: _health_check(service))
    return scheduler


async def _transcribe(service: Service) -> None:
    await transcriber(service.database, service.settings, service.fetcher).run(until_idle=True)


async def _health_check(service: Service) -> None:
    """Frees what was left behind; nothing depends on it, but people who look see less of it."""
    the_note.use(service.database, service.claiming)
    for stage in service.claiming.stages.values():
        freed = await the_note.cleanup_stale_locks(stage)
        if freed:
            log.warning("[%s] %d stale locks were freed", stage.task, freed)


async def measure(service: Service, metrics: Metrics) -> None:
    """Figures of the whole pipeline."""
    told = await overview(service.database)
    for one in told["stages"]:
        for status in ("pending", "in_progress", "completed", "failed"):
            metrics.rows.labels(one["stage"], status).set(one["counts"].get(status, 0))
        metrics.paused.labels(one["stage"]).set(one["paused"])
        metrics.pause_ends.labels(one["stage"]).set(one["until"].timestamp() if one["until"] else 0)
    active = await active_processing(service.database, service.claiming)
    stuck = await stuck_locks(service.database, service.claiming)
    for stage in STAGES:
        metrics.active.labels(stage).set(sum(one.stage == stage for one in active))
        metrics.stuck.labels(stage).set(sum(one.stage == stage for one in stuck))
    metrics.matches.set(told["numbers"]["matches"])
    metrics.reviews.set(told["numbers"]["reviews"])
    metrics.spent.set(told["spent"])
    metrics.calls.set(told["calls"])


async def _measure(loop: Loop, service: Service, metrics: Metrics) -> None:
    while True:
        loop.beat()
        await measure(service, metrics)
        await asyncio.sleep(5)
