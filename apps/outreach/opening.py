"""Opening the database: as it is to look and to work, and brought up to date by `migrate` and `serve` alone.

Nothing but `migrate` and `serve` runs DDL. What looks works with a database that lacks triggers; what works on rows does
not, and says what to run.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path

from sqlalchemy import func, select

from appkit.commands import Unusable
from appkit.database import Database, open_database
from appkit.installed import Installed, existing
from appkit.migrating import OwnTables, installed, migrate
from outreach.adopting import adopt
from outreach.facts import Facts, read_facts, write_fact
from outreach.forms import Claiming, Form
from outreach.lifecycle import TABLE
from outreach.settings import Settings
from outreach.stages import Layout
from outreach.tables import campaigns, media, own_tables

HERE = Path(__file__).parent
PIPELINE = HERE / "migrations"
CLAIM_COLUMNS = HERE / "claim_columns"
BESIDE = HERE / "beside"
ADOPTED = HERE / "adopted_table"
MIGRATE = "run `outreach migrate`"


class Purpose(Enum):
    """What a process opens the database for."""

    LOOK = auto()
    WORK = auto()
    SERVE = auto()
    """To work; what is missing is installed first."""
    SIMULATE = auto()
    """The same with invented answers, in a database that has no others."""
    MIGRATE = auto()
    """To install what is missing, and to adopt a table that is there."""


CHANGING = (Purpose.SERVE, Purpose.SIMULATE, Purpose.MIGRATE)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open database with what it says about itself."""

    database: Database
    facts: Facts
    claiming: Claiming
    lacks: Installed
    """What is missing or has changed, for those who look."""
    done: tuple[str, ...] = ()
    """Migrations that were applied now."""


@asynccontextmanager
async def opened(settings: Settings, purpose: Purpose = Purpose.LOOK) -> AsyncIterator[Opened]:
    """The database in the form that this process uses; workers that use the other one may be at work."""
    _check_file(settings.database_url.partition("sqlite:///")[2], purpose)
    async with open_database(settings.database_url, (), lambda _: (), migrating=False) as database:
        async with database.read() as connection:
            known = await existing(connection, ("outreach_facts", "applied_migrations", TABLE))
            facts = await read_facts(connection) if "outreach_facts" in known else None
        if purpose in CHANGING:
            yield await _brought_up_to_date(database, settings, purpose, known, facts)
        else:
            yield await _as_it_is(database, settings, purpose, facts)


def _check_file(path: str, purpose: Purpose) -> None:
    """To look makes no database."""
    if not path:
        return
    if purpose in CHANGING:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    elif not Path(path).exists():
        raise Unusable(f"there is no database at {path}: `outreach serve` makes one, or {MIGRATE}")


async def _as_it_is(database: Database, settings: Settings, purpose: Purpose, facts: Facts | None) -> Opened:
    if facts is None:
        raise Unusable(f"the database has no tables of outreach, or those of an older release: {MIGRATE}")
    if "stale" in settings.model_fields_set and settings.stale != facts.stale_seconds:
        raise Unusable(
            f"OUTREACH_STALE is {settings.stale:g} here and {facts.stale_seconds:g} in the database,"
            f" where all processes have it: unset it, or {MIGRATE} with it and start all workers again"
        )
    form = _form(settings, facts)
    lacks = await installed(database.engine, _folders(form, facts), _own(form, facts))
    if purpose is Purpose.LOOK and lacks.migrations == ("002_claim_columns",):
        form = Form.MARKER
    elif lacks.migrations or (purpose is Purpose.WORK and not lacks.usable):
        raise Unusable(f"the database is not ready: {lacks}; {MIGRATE}")
    if purpose is Purpose.WORK:
        _check_not_simulated(facts)
        if form is Form.MARKER and (why := settings.too_short(facts.stale_seconds)):
            raise Unusable(why)
    return Opened(database, facts, _claiming(database, settings, facts, form), lacks)


async def _brought_up_to_date(
    database: Database, settings: Settings, purpose: Purpose, known: set[str], facts: Facts | None
) -> Opened:
    if facts is None and TABLE in known and not await _made_here(database, known):
        facts = await _adopted(database, settings, purpose)
    is_new = facts is None and TABLE not in known
    facts = facts or Facts()
    if purpose is Purpose.SERVE:
        _check_not_simulated(facts)
    stale = settings.stale if facts.stale is None or "stale" in settings.model_fields_set else facts.stale
    facts = replace(facts, stale=stale)
    form = _form(settings, facts)
    if purpose is Purpose.SIMULATE and not (is_new or facts.simulated or await _is_empty(database)):
        raise Unusable(
            "--simulate writes invented descriptions and scores, and this database has campaigns that were not made by it:"
            " set another OUTREACH_DATABASE, or none and another OUTREACH_FOLDER"
        )
    folders, own = _folders(form, facts), _own(form, facts)
    done = await migrate(database.engine, folders, own)
    async with database.transaction() as (connection, _):
        before = await read_facts(connection)
        for name, value in (("layout", str(facts.layout)), ("stale", f"{stale:g}")):
            await write_fact(connection, name, value)
        if purpose is Purpose.SIMULATE and not before.simulated:
            await write_fact(connection, "simulated", "yes")
    lacks = await installed(database.engine, folders, own)
    return Opened(database, facts, _claiming(database, settings, facts, form), lacks, tuple(done))


async def _adopted(database: Database, settings: Settings, purpose: Purpose) -> Facts:
    """A table that was there before us, which stays as it is."""
    if purpose is not Purpose.MIGRATE or settings.form is not Form.MARKER:
        raise Unusable(
            f"{TABLE} is there and was not made by outreach; to work on it as it is, with locks in its error columns:"
            " OUTREACH_FORM=marker outreach migrate"
        )
    return await adopt(database, (PIPELINE / "001_pipeline.sql").read_text(), settings.stale)


async def _made_here(database: Database, known: set[str]) -> bool:
    if "applied_migrations" not in known:
        return False
    async with database.read() as connection:
        asked = "SELECT count(*) FROM applied_migrations WHERE name IN ('001_pipeline', '001_adopted')"
        return bool((await connection.exec_driver_sql(asked)).scalar_one())


async def _is_empty(database: Database) -> bool:
    async with database.read() as connection:
        if not await existing(connection, ("campaigns",)):
            return True
        counts = [select(func.count()).select_from(table) for table in (campaigns, media)]
        return not any([(await connection.execute(one)).scalar_one() for one in counts])


def _check_not_simulated(facts: Facts) -> None:
    if facts.simulated:
        raise Unusable(
            "this database was made by `outreach serve --simulate`, and its descriptions and scores are invented:"
            " set another OUTREACH_DATABASE, or none and another OUTREACH_FOLDER"
        )


def _form(settings: Settings, facts: Facts) -> Form:
    if facts.layout is Layout.OWN:
        return settings.form
    if settings.form is Form.COLUMNS and "form" in settings.model_fields_set:
        raise Unusable(f"{TABLE} was adopted as it is and has no columns for claims: set OUTREACH_FORM=marker")
    return Form.MARKER


def _folders(form: Form, facts: Facts) -> tuple[Path, ...]:
    if facts.layout is Layout.ADOPTED:
        return BESIDE, ADOPTED
    return (PIPELINE, BESIDE, CLAIM_COLUMNS) if form is Form.COLUMNS else (PIPELINE, BESIDE)


def _own(form: Form, facts: Facts) -> OwnTables:
    return own_tables(form, facts.stale_seconds, facts.layout, facts.theirs)


def _claiming(database: Database, settings: Settings, facts: Facts, form: Form) -> Claiming:
    return Claiming(form, database.dialect, facts.stale_seconds, settings.lease, settings.rest, facts.layout)
