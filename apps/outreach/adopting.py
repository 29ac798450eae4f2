"""Adopting a `campaign_media_discoveries` that was there before us, as the note has it: that table is checked and not
changed.

Tables beside it that are there already (`media`, `campaigns`, `episodes`, `match_suggestions`, `review_tasks`) get the
columns and unique indexes that they lack; those that are not are made. What cannot work is named before anything is
changed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import ARRAY, Integer, Numeric

from appkit.commands import Unusable
from appkit.database import Database
from appkit.migrating import run_script, statements
from outreach.facts import Facts, write_fact
from outreach.lifecycle import TABLE, Progress
from outreach.stages import Layout

NOTE_COLUMNS = (
    "id",
    "campaign_id",
    "media_id",
    "discovery_keyword",
    "discovered_at",
    "created_at",
    "updated_at",
    "enrichment_status",
    "enrichment_completed_at",
    "enrichment_error",
    "vetting_status",
    "vetting_score",
    "vetting_reasoning",
    "vetting_criteria_met",
    "topic_match_analysis",
    "vetted_at",
    "vetting_error",
    "match_created",
    "match_suggestion_id",
    "review_status",
)
STATUSES = ("enrichment_status", "vetting_status")
ONCE = {
    TABLE: ("campaign_id", "media_id"),
    "campaigns": ("name",),
    "media": ("rss_url",),
    "episodes": ("media_id", "guid"),
    "match_suggestions": ("campaign_id", "media_id"),
    "review_tasks": ("match_suggestion_id",),
}
"""Columns that are unique together: a row of ours is there once."""
MORE = {"campaigns": {"language": "text"}}
"""Columns that later migrations add to tables of our own."""
OURS_ALONE = ("stored_feeds", "kept_errors", "stages", "ai_budget")
FACTS = "CREATE TABLE outreach_facts (name text PRIMARY KEY, value text NOT NULL)"
APPLIED = (
    "CREATE TABLE IF NOT EXISTS applied_migrations (name text PRIMARY KEY, applied_at {moment} NOT NULL);\n"
    "INSERT INTO applied_migrations (name, applied_at) VALUES ('001_adopted', CURRENT_TIMESTAMP);"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A table that was there."""

    columns: Mapping[str, Any]
    unique: frozenset[frozenset[str]]

    @property
    def highest_score(self) -> float:
        """What `vetting_score` can hold: NUMERIC(4, 2) overflows at 100."""
        kind = self.columns["vetting_score"]["type"]
        if isinstance(kind, Numeric) and kind.precision is not None and kind.scale is not None:
            return min(100.0, 10.0 ** (kind.precision - kind.scale) - 10.0**-kind.scale)
        return 100.0


async def adopt(database: Database, script: str, stale: float) -> Facts:
    """Make what is missing beside the table, in one transaction; `Unusable` names everything that is in the way."""
    wanted = {name: dict(columns) for name, columns in _tables(script)}
    async with database.transaction() as (connection, _):
        found: dict[str, Found] = await connection.run_sync(_found, [TABLE, *wanted])
        problems = [*_problems(found, wanted), *await _strange_statuses(connection)]
        if problems:
            raise Unusable(f"{TABLE} cannot be adopted:\n  " + "\n  ".join(problems))
        await _make(connection, script, wanted, found)
        theirs = frozenset(found) - {TABLE}
        await write_fact(connection, "layout", str(Layout.ADOPTED))
        await write_fact(connection, "theirs", " ".join(sorted(theirs)))
        await write_fact(connection, "highest_score", f"{found[TABLE].highest_score:g}")
    return Facts(Layout.ADOPTED, stale, theirs=theirs, highest_score=found[TABLE].highest_score)


async def _make(
    connection: AsyncConnection,
    script: str,
    wanted: Mapping[str, Mapping[str, str]],
    found: Mapping[str, Found],
) -> None:
    dialect = "sqlite" if connection.dialect.name == "sqlite" else "postgres"
    for statement in statements(script):
        name = re.search(r"(?:CREATE TABLE|INSERT INTO|INDEX \w+ ON)\s+(\w+)", statement)
        if name and name[1] != TABLE and name[1] not in found:
            await run_script(connection, statement, dialect)
    for table in found:
        for column, definition in wanted.get(table, {}).items():
            if column not in found[table].columns:
                await run_script(connection, f"ALTER TABLE {table} ADD COLUMN {column} {definition}", dialect)
    for table, once in ONCE.items():
        if table in found and table != TABLE and frozenset(once) not in found[table].unique:
            index = f"CREATE UNIQUE INDEX outreach_{table}_once ON {table} ({', '.join(once)})"
            await run_script(connection, index, dialect)
    await run_script(connection, FACTS, dialect)
    await run_script(connection, APPLIED, dialect)


def _problems(found: Mapping[str, Found], wanted: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    theirs = found[TABLE]
    for column in NOTE_COLUMNS:
        if column not in theirs.columns:
            yield f"{TABLE} has no column {column}"
    if frozenset(ONCE[TABLE]) not in theirs.unique:
        yield f"{TABLE} has no UNIQUE ({', '.join(ONCE[TABLE])})"
    for table, one in found.items():
        if table in OURS_ALONE:
            yield f"a table {table} is there, and outreach makes one of that name"
            continue
        known = NOTE_COLUMNS if table == TABLE else tuple(wanted[table])
        key = one.columns.get("id")
        if key is None or not isinstance(key["type"], Integer):
            yield f"{table} needs a column id with whole numbers"
        for name, column in one.columns.items():
            if name not in known and not column["nullable"] and column.get("default") is None:
                yield f"{table}.{name} needs a default: outreach does not know what to write there"
            if name in known and isinstance(column["type"], ARRAY) and name != "keywords":
                yield f"{table}.{name} is an array, and outreach writes JSON as text there"


async def _strange_statuses(connection: AsyncConnection) -> list[str]:
    known = ", ".join(f"'{one}'" for one in Progress)
    strange = []
    for column in STATUSES:
        asked = f"SELECT count(*) FROM {TABLE} WHERE {column} IS NULL OR {column} NOT IN ({known})"  # noqa: S608
        if number := (await connection.execute(text(asked))).scalar_one():
            strange.append(f"{number} rows have another {column} than {', '.join(Progress)}")
    return strange


def _found(connection: Connection, tables: list[str]) -> dict[str, Found]:
    seen = inspect(connection)
    found = {}
    for table in tables:
        if not seen.has_table(table):
            continue
        columns = {one["name"]: dict(one) for one in seen.get_columns(table)}
        unique: list[Any] = [one["column_names"] for one in seen.get_unique_constraints(table)]
        unique += [one["column_names"] for one in seen.get_indexes(table) if one["unique"]]
        unique.append(seen.get_pk_constraint(table)["constrained_columns"])
        for name in seen.get_pk_constraint(table)["constrained_columns"]:
            columns[name]["nullable"] = True  # the database fills it
        found[table] = Found(columns, frozenset(frozenset(map(str, one)) for one in unique))
    return found


def _tables(script: str) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """The tables of the first migration but the discoveries, with the definition of each column as it can be added later."""
    for statement in statements(script):
        name = re.search(r"CREATE TABLE (\w+) \(", statement)
        if name and name[1] != TABLE:
            yield name[1], _columns(name[1], statement)


def _columns(table: str, statement: str) -> Iterator[tuple[str, str]]:
    for line in statement.splitlines():
        found = re.match(r"    ([a-z_]+)\s+(\S.*?),?\s*(?:--.*)?$", line)
        if found:
            # a row that is there already has no value yet
            definition = re.sub(r" REFERENCES .*", "", found[2])
            if "DEFAULT" not in definition:
                definition = definition.replace(" NOT NULL", "").replace(" UNIQUE", "")
            yield found[1], definition
    yield from MORE.get(table, {}).items()
