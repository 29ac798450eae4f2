"""A log of every change of a status or a lock in a storm, written by triggers of the storm's own, and read without the
code under test.

On PostgreSQL each worker has a login of its own, so that the log says who has written. What is alive is decided here by
hand: a claim in columns until its time, a marker for an hour, in whichever way its time is written.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from appkit.database import Database

KINDS = {
    "enrichment": ("enrichment_error", "ENRICHMENT"),
    "ai_description": ("enrichment_error", "AI_DESC"),
    "vetting": ("vetting_error", "VETTING"),
    "matching": ("matching_error", "MATCHING"),
}
"""By hand: where the marker of a stage stands, and what it is called there."""
HOUR = timedelta(hours=1)
STEPS = {
    ("pending", "in_progress"),
    ("in_progress", "in_progress"),  # taken over, or renewed
    ("in_progress", "completed"),
    ("in_progress", "pending"),
    ("in_progress", "failed"),
    ("pending", "failed"),
}
"""By hand, for every stage."""
SHARED = {("pending", "completed")}
"""And where the work is the podcast's, for its other discoveries."""

_TABLE = {
    "postgres": """
        CREATE TABLE storm_audit (n bigserial PRIMARY KEY, at timestamptz, who text, id bigint, stage text,
            before text, after text, old_mark text, new_mark text, old_until timestamptz, new_until timestamptz,
            old_fence bigint, new_fence bigint)""",
    "sqlite": """
        CREATE TABLE storm_audit (n INTEGER PRIMARY KEY, at TEXT, who TEXT, id INTEGER, stage TEXT,
            before TEXT, after TEXT, old_mark TEXT, new_mark TEXT, old_until TEXT, new_until TEXT,
            old_fence INTEGER, new_fence INTEGER)""",
}
_ROW = (
    "OLD.id, '{stage}', OLD.{stage}_status, NEW.{stage}_status,"
    " CASE WHEN OLD.{error} LIKE 'PROCESSING:{kind}:%' THEN OLD.{error} END,"
    " CASE WHEN NEW.{error} LIKE 'PROCESSING:{kind}:%' THEN NEW.{error} END,"
    " {columns}"
)
_COLUMNS = "OLD.{stage}_claimed_until, NEW.{stage}_claimed_until, OLD.{stage}_fence, NEW.{stage}_fence"
_INTO = (
    "INSERT INTO storm_audit (at, who, id, stage, before, after, old_mark, new_mark, old_until, new_until,"
    " old_fence, new_fence)"
)
_CHANGED = {
    "postgres": "(OLD.{stage}_status, OLD.{error}) IS DISTINCT FROM (NEW.{stage}_status, NEW.{error}){fence}",
    "sqlite": "(OLD.{stage}_status IS NOT NEW.{stage}_status OR OLD.{error} IS NOT NEW.{error}{fence})",
}
_FENCE = {
    "postgres": " OR OLD.{stage}_fence IS DISTINCT FROM NEW.{stage}_fence",
    "sqlite": " OR OLD.{stage}_fence IS NOT NEW.{stage}_fence",
}


@dataclass(frozen=True, slots=True)
class Held:
    """A row that is held now, by hand."""

    stage: str
    key: int
    by_marker: bool

    def __str__(self) -> str:
        return f"{self.stage} {self.key} by {'marker' if self.by_marker else 'columns'}"


@dataclass(frozen=True, slots=True)
class Event:
    """One change."""

    at: datetime
    who: str
    key: int
    stage: str
    before: str
    after: str
    old_mark: str | None
    new_mark: str | None
    old_until: datetime | None
    new_until: datetime | None
    old_fence: int | None
    new_fence: int | None

    @property
    def is_claim(self) -> bool:
        """A lock was written that was not there before."""
        if self.after != "in_progress":
            return False
        by_marker = self.new_mark is not None and self.new_mark != self.old_mark
        return by_marker or (self.new_until is not None and self.new_fence != self.old_fence)

    @property
    def was_alive(self) -> bool:
        """The lock that stood there was in force."""
        if self.old_until is not None and self.old_until > self.at:
            return True
        since = time_of(self.old_mark)
        return since is not None and self.at < since + HOUR

    def __str__(self) -> str:
        return f"{self.stage} {self.key}: {self.before} to {self.after} by {self.who or 'a worker'}"


def time_of(mark: str | None) -> datetime | None:
    """When a marker was written: in seconds, or with a date; None for one that holds nothing."""
    parts = (mark or "").split(":", 3)
    if len(parts) < 4 or not parts[2]:
        return None
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", parts[3]):
        return datetime.fromtimestamp(float(parts[3]), UTC)
    try:
        return datetime.fromisoformat(parts[3][:26]).replace(tzinfo=UTC)
    except ValueError:
        return None


async def install(database: Database, has_columns: bool) -> None:
    """The table and a trigger for each stage, which sees what every other trigger has made of a row."""
    async with database.transaction() as (connection, _):
        await connection.execute(text(_TABLE[database.dialect]))
        for stage, (error, kind) in KINDS.items():
            columns = _COLUMNS if has_columns else "NULL, NULL, NULL, NULL"
            words = {"stage": stage, "error": error, "kind": kind}
            words["columns"] = columns.format(stage=stage)
            fence = _FENCE[database.dialect].format(stage=stage) if has_columns else ""
            changed = _CHANGED[database.dialect].format(**words, fence=fence)
            row = _ROW.format(**words)
            if database.dialect == "postgres":
                into = f"{_INTO} VALUES (clock_timestamp(), session_user, {row})"
                body = f"BEGIN IF {changed} THEN {into}; END IF; RETURN NULL; END"
                name = f"storm_audit_{stage}"
                for ddl in (
                    f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$",
                    f"CREATE TRIGGER zz_{name} AFTER UPDATE ON campaign_media_discoveries"
                    f" FOR EACH ROW EXECUTE FUNCTION {name}()",
                ):
                    await connection.exec_driver_sql(ddl)
            else:
                into = f"{_INTO} VALUES (strftime('%Y-%m-%d %H:%M:%f', 'now'), '', {row})"
                await connection.exec_driver_sql(
                    f"CREATE TRIGGER zz_storm_audit_{stage} AFTER UPDATE ON campaign_media_discoveries"
                    f" WHEN {changed} BEGIN {into}; END"
                )


async def events(database: Database) -> list[Event]:
    """Everything that has changed, in its order."""
    names = [name for name in Event.__slots__ if name not in ("key",)]
    asked = f"SELECT {', '.join(names)}, id AS key FROM storm_audit ORDER BY n"  # noqa: S608
    async with database.read() as connection:
        rows = (await connection.execute(text(asked))).mappings().all()
    found: list[dict[str, Any]] = [
        {name: _moment(value) if name in _MOMENTS else value for name, value in row.items()} for row in rows
    ]
    return [Event(**one) for one in found]


_MOMENTS = ("at", "old_until", "new_until")


def _moment(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


async def held_now(database: Database) -> list[Held]:
    """The rows that are held, by columns or by a marker that is younger than an hour."""
    async with database.read() as connection:
        rows = (await connection.execute(text("SELECT * FROM campaign_media_discoveries"))).mappings().all()
        now = _moment((await connection.execute(text(_NOW[database.dialect]))).scalar_one())
    assert now is not None
    found = []
    for row in rows:
        for stage, (error, kind) in KINDS.items():
            if row[f"{stage}_status"] != "in_progress":
                continue
            until = _moment(row.get(f"{stage}_claimed_until"))
            mark = row[error] or ""
            since = time_of(mark) if mark.startswith(f"PROCESSING:{kind}:") else None
            if since is not None and now < since + HOUR:
                found.append(Held(stage, int(row["id"]), True))
            elif until is not None and until > now:
                found.append(Held(stage, int(row["id"]), False))
    return found


_NOW = {
    "postgres": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}


def judge_steps(log: list[Event]) -> list[str]:
    """Changes that the tables above do not have, or that do not follow from the one before."""
    at: dict[tuple[str, int], str] = {}
    wrong = []
    for one in log:
        allowed = STEPS | SHARED if one.stage in ("enrichment", "ai_description") else STEPS
        place = (one.stage, one.key)
        known = at.get(place, "pending")
        if one.before != known or (one.before != one.after and (one.before, one.after) not in allowed):
            wrong.append(f"{one} when it was at {known}")
        at[place] = one.after
    return wrong


def judge_order(log: list[Event]) -> list[str]:
    """Stages that were completed before the one in front of them."""
    done: set[tuple[str, int]] = set()
    wrong = []
    names = list(KINDS)
    for one in log:
        if one.after != "completed" or one.before == "completed":
            continue
        place = names.index(one.stage)
        if place and (names[place - 1], one.key) not in done:
            wrong.append(f"{one}, and {names[place - 1]} was not completed")
        done.add((one.stage, one.key))
    return wrong


def judge_holders(log: list[Event], workers: set[str]) -> tuple[list[str], list[str], int]:
    """Ends by others than the holder, locks that were taken while they were alive, and how many were taken over."""
    holder: dict[tuple[str, int], str] = {}
    strangers, early, taken_over = [], [], 0
    for one in log:
        place = (one.stage, one.key)
        if one.who and one.who not in workers:
            holder.pop(place, None)  # the storm's own hand
            continue
        if one.is_claim:
            known = holder.get(place)
            if known != one.who or not one.who:
                if one.was_alive:
                    early.append(f"{one}, from {known or 'another'}")
                taken_over += one.before == "in_progress"
            holder[place] = one.who
        elif one.before == "in_progress" and one.after != "in_progress":
            known = holder.get(place, one.who)
            if known != one.who and not (one.after == "failed" and not one.was_alive):
                strangers.append(f"{one}, held by {known}")
            holder.pop(place, None)
    return strangers, early, taken_over
