"""What a run ran on: versions and settings, so that a figure can be judged."""

import os
import platform
import sqlite3
from importlib.metadata import version

from bench.world import World

_DRIVERS = ("asyncpg", "psycopg", "redis", "hiredis", "sqlalchemy", "django", "django-fsm-2")


def describe(world: World) -> list[str]:
    """One line for each fact; starts the servers."""
    settings = {
        name: world.postgres.psql(f"SHOW {name}")
        for name in ("synchronous_commit", "fsync", "full_page_writes", "shared_buffers")
    }
    return [
        f"{os.cpu_count()} cores, {platform.system()} on {platform.machine()}",
        f"{platform.python_implementation()} {platform.python_version()}, raceproof {version('raceproof')}",
        f"PostgreSQL {world.postgres.version}: " + ", ".join(f"{n} {v}" for n, v in settings.items()),
        f"Valkey {world.valkey.version}: append-only file, appendfsync everysec",
        f"SQLite {sqlite3.sqlite_version}: journal_mode WAL, synchronous FULL",
        ", ".join(f"{name} {version(name)}" for name in _DRIVERS),
    ]
