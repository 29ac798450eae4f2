"""Processes and schedules: B3, B4, migrations, and a storm in small."""

import asyncio
from typing import Any

from sqlalchemy import func, select, text

from outreach.metrics import Metrics
from outreach.opening import Purpose, opened
from outreach.service import _scheduler, prepared
from outreach.settings import Settings
from outreach.stages import STAGES, Stage
from outreach.storm_rows import fill
from outreach.tables import discoveries
from outreach.transcribing import AT_ONCE

from .conftest import Opening


async def test_several_instances_start_on_an_empty_database_at_once(url: str) -> None:
    async def start(form: str) -> str:
        async with (
            opened(Settings(database=url, form=form), Purpose.SERVE) as it,
            it.database.read() as connection,
        ):
            found = await connection.execute(text("SELECT count(*) FROM applied_migrations"))
            return f"{form} {found.scalar_one()}"

    told = await asyncio.gather(*(start(form) for form in ("columns", "columns", "columns")))
    assert set(told) == {"columns 4"}


async def test_the_migration_keeps_what_is_there(opening: Opening) -> None:
    async with opening(form="marker") as service:
        await fill(service, 60, 2)
        async with service.database.read() as connection:
            before = (await connection.execute(select(discoveries).order_by(discoveries.c.id))).all()
    async with opening(form="columns") as service, service.database.read() as connection:
        after = (await connection.execute(select(discoveries).order_by(discoveries.c.id))).all()
        assert after == before
        claimed = await connection.execute(
            text("SELECT count(*) FROM campaign_media_discoveries WHERE vetting_fence IS NOT NULL")
        )
        assert claimed.scalar_one() == 0


async def test_a_kind_of_work_is_run_once_by_the_clock_over_all_processes(url: str) -> None:
    """Daily jobs that compare the hour skip days, and a last run in memory repeats itself after a deploy."""
    runs: list[tuple[str, str]] = []

    async def instance(name: str) -> None:
        async with prepared(Settings(database=url, instance=name), Metrics(), Purpose.MIGRATE) as service:

            async def run(stage: Stage) -> Any:
                runs.append((stage.task, name))

            service.manager.run_by_the_clock = run  # type: ignore[method-assign]
            await _scheduler(service).run(until_idle=True)

    await instance("one")
    await asyncio.gather(*(instance(name) for name in ("two", "three")))
    assert sorted(runs) == sorted((stage.task, "one") for stage in STAGES.values())


async def test_numbers_of_the_note() -> None:
    settings = Settings()
    assert {name: stage.at_once for name, stage in STAGES.items()} == dict.fromkeys(STAGES, 1)
    assert STAGES["ai_description"].parallel == 3
    assert AT_ONCE == 2  # transcription
    assert (settings.batch, settings.batch_timeout, settings.stale) == (20, 2700, 3600)
    assert settings.batch_timeout < settings.stale
    assert settings.longest_hold <= settings.stale / 3


async def test_the_rows_of_a_storm_are_what_they_should_be(opening: Opening) -> None:
    async with opening() as service:
        seeded = await fill(service, 100, 3)
        async with service.database.read() as connection:
            total = (await connection.execute(select(func.count()).select_from(discoveries))).scalar_one()
        assert (total, seeded.broken, len(seeded.errors)) == (300, 1, 30)
