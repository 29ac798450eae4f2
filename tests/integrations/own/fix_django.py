"""Django's connections as callers have them: settings are made once for the run, databases are added to it."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connections, transaction

from raceproof import bind
from tests.integrations.own.fix_connections import Rows


class Django:
    """One of Django's connections; `begin` enters `atomic()`, which may be nested."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.connection: Any = connections[alias]
        self.connection.ensure_connection()
        self.store = bind(self.connection)
        self._blocks: list[Any] = []

    async def begin(self) -> None:
        block = transaction.atomic(using=self.alias)
        block.__enter__()
        self._blocks.append(block)

    async def commit(self) -> None:
        self._blocks.pop().__exit__(None, None, None)

    async def rollback(self) -> None:
        self.connection.set_rollback(True)
        self._blocks.pop().__exit__(None, None, None)

    async def run(self, text: str) -> Rows:
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall()) if cursor.description else []

    def in_transaction(self) -> bool:
        raw = self.connection.connection
        return bool(raw.in_transaction if self.connection.vendor == "sqlite" else raw.info.transaction_status)

    async def close(self) -> None:
        while self._blocks:
            await self.rollback()
        self.connection.close()
        del connections[self.alias]
        del connections.settings[self.alias]


def django_on_sqlite(path: Path) -> Django:
    """A connection to a file."""
    return _open({"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": {"timeout": 0}})


def django_on_postgres(url: str) -> Django:
    """A connection to a server."""
    parts = urlsplit(url)
    return _open(
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.removeprefix("/"),
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": parts.username,
        }
    )


def _open(database: dict[str, Any]) -> Django:
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    alias = "own"
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: database})[alias]
    return Django(alias)
