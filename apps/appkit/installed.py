"""What a database has of an application's schema: migrations, tables, indexes, functions, triggers and views.

Reads catalogs only, so it waits for no lock and no session waits for it. `remember` writes down how the objects look right
after they were installed; `look` compares them with that.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

_NAME = r'(?:"(?:[^"]|"")+"|\w+)'
_CREATE = re.compile(
    rf"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:UNIQUE\s+)?(?:TABLE|INDEX|TRIGGER|FUNCTION|VIEW)\s+(?:CONCURRENTLY\s+)?"
    rf"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME}(?:\.{_NAME})?)",
    re.IGNORECASE,
)
_POSTGRES = """
SELECT 'table or index ' || c.relname,
       concat_ws(' ', c.relkind, pg_get_indexdef(i.indexrelid), i.indisvalid,
                 CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END)
FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
WHERE c.relname IN :names AND pg_table_is_visible(c.oid)
UNION ALL
SELECT 'trigger ' || t.tgname || ' on ' || c.relname, concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled)
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE t.tgname IN :names AND NOT t.tgisinternal AND pg_table_is_visible(c.oid)
UNION ALL
SELECT 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
       concat_ws(' ', p.prosrc, array_to_string(p.proconfig, ' '))
FROM pg_proc AS p
WHERE p.proname IN :names AND pg_function_is_visible(p.oid)
"""
_SQLITE = "SELECT type || ' ' || name, sql FROM sqlite_master WHERE name IN :names"
_INVALID = """
SELECT i.indexrelid::regclass::text
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relname IN :names AND NOT i.indisvalid AND pg_table_is_visible(c.oid)
"""
_TABLES = {
    "postgres": "SELECT relname FROM pg_class WHERE relname IN :names AND pg_table_is_visible(oid)",
    "sqlite": "SELECT name FROM sqlite_master WHERE name IN :names",
}
RECORD = """
CREATE TABLE IF NOT EXISTS installed_objects (script text PRIMARY KEY, objects text NOT NULL, installed_at {moment} NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """What is not as it should be; each is a list of names, for a person."""

    migrations: tuple[str, ...] = ()
    """That have not been applied."""
    unknown: bool = False
    """The own objects of this release were never installed here."""
    missing: tuple[str, ...] = ()
    """Objects that were installed and are gone."""
    changed: tuple[str, ...] = ()
    """Objects that look different from how they were installed: by hand, or by another release."""

    @property
    def complete(self) -> bool:
        return self.usable and not self.changed

    @property
    def usable(self) -> bool:
        """Everything that this release needs is there."""
        return not (self.migrations or self.unknown or self.missing)

    def __str__(self) -> str:
        found = [f"migration {name} has not been applied" for name in self.migrations]
        found += ["the triggers and indexes of this release are not installed"] * self.unknown
        found += [f"{name} is missing" for name in self.missing]
        found += [f"{name} has been changed" for name in self.changed]
        return "; ".join(found) or "complete"


async def look(connection: AsyncConnection, migrations: Iterable[str], scripts: Iterable[str]) -> Installed:
    """What is missing of these migrations, by name, and of these scripts."""
    listed, scripts = list(migrations), list(scripts)
    known = await existing(connection, ("applied_migrations", "installed_objects"))
    applied: set[str] = set()
    if "applied_migrations" in known:
        applied = set((await connection.execute(text("SELECT name FROM applied_migrations"))).scalars())
    unapplied = tuple(name for name in listed if name not in applied)
    if not scripts:
        return Installed(unapplied)
    recorded: dict[str, str] = {}
    if "installed_objects" in known:
        asked = text("SELECT script, objects FROM installed_objects")
        recorded = {script: objects for script, objects in await connection.execute(asked)}  # noqa: C416
    before: dict[str, str] = {}
    for script in scripts:
        before |= json.loads(recorded.get(_digest(script), "{}"))
    now = await _objects(connection, scripts)
    return Installed(
        unapplied,
        unknown=any(_digest(script) not in recorded for script in scripts),
        missing=tuple(name for name in before if name not in now),
        changed=tuple(name for name, digest in before.items() if now.get(name, digest) != digest),
    )


async def remember(connection: AsyncConnection, scripts: Iterable[str], now: str) -> None:
    """Write down how the objects of each of these scripts look; `now` is the dialect's word for the time."""
    for script in scripts:
        told = {"script": _digest(script), "objects": json.dumps(await _objects(connection, [script]))}
        await connection.execute(
            text(
                f"INSERT INTO installed_objects (script, objects, installed_at) VALUES (:script, :objects, {now})"  # noqa: S608
                " ON CONFLICT (script) DO UPDATE"
                " SET objects = excluded.objects, installed_at = excluded.installed_at"
            ),
            told,
        )


async def invalid_indexes(connection: AsyncConnection, scripts: Iterable[str]) -> list[str]:
    """Of those that these scripts make on PostgreSQL: left behind where a concurrent build was interrupted."""
    return [name for (name,) in await _named(connection, _INVALID, names(scripts))]


def names(scripts: Iterable[str]) -> set[str]:
    """The names of everything that these scripts create, without schema and quotes."""
    found = set()
    for script in scripts:
        for one in _CREATE.finditer(script):
            last = re.findall(_NAME, one["name"])[-1]
            found.add(last[1:-1].replace('""', '"') if last.startswith('"') else last)
    return found


async def _objects(connection: AsyncConnection, scripts: Iterable[str]) -> dict[str, str]:
    asked = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRES
    found = await _named(connection, asked, names(scripts))
    return {name: _digest(definition or "") for name, definition in sorted(map(tuple, found))}


async def existing(connection: AsyncConnection, tables: Iterable[str]) -> set[str]:
    dialect = "sqlite" if connection.dialect.name == "sqlite" else "postgres"
    return {name for (name,) in await _named(connection, _TABLES[dialect], tables)}


async def _named(connection: AsyncConnection, asked: str, wanted: Iterable[str]) -> list[Any]:
    if not (wanted := sorted(wanted)):
        return []
    statement = text(asked).bindparams(bindparam("names", expanding=True))
    return list((await connection.execute(statement, {"names": wanted})).all())


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
