"""The servers of one run, started when first asked for, and fresh tables on them for each comparison."""

import tempfile
from contextlib import ExitStack, closing
from functools import cached_property
from itertools import count
from pathlib import Path

from bench.commands import Commands, commands
from bench.scale import Scale
from bench.tables import create_on_postgres, create_on_redis, create_on_sqlite, open_sqlite
from raceproof.testing import PostgresServer, ValkeyServer, postgres, valkey


class World:
    """Leaving the `with` block stops the servers and removes all data."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self._stack = ExitStack()
        self._numbers = count(1)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def postgres(self) -> PostgresServer:
        return self._stack.enter_context(postgres(fsync=True, synchronous_commit=True))

    @cached_property
    def postgres_url(self) -> str:
        return self.postgres.database("bench")

    @cached_property
    def valkey(self) -> ValkeyServer:
        return self._stack.enter_context(valkey())

    @cached_property
    def folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="raceproof-bench-")))

    def on_postgres(self, rows: int, history: bool = False) -> Commands:
        table, noted = self._names(history)
        create_on_postgres(self.postgres_url, table, rows, noted)
        return commands(table, rows, noted)

    def on_redis(self, rows: int, history: bool = False) -> Commands:
        table, noted = self._names(history)
        create_on_redis(self.valkey.url, table, rows)
        return commands(table, rows, noted)

    def on_sqlite(self, rows: int, history: bool = False) -> tuple[Commands, str]:
        """The commands and the file that they are in."""
        table, noted = self._names(history)
        path = str(self.folder / f"{table}.db")
        # stays open: the last connection to close would remove the log
        connection = self._stack.enter_context(closing(open_sqlite(path)))
        create_on_sqlite(connection, table, rows, noted)
        return commands(table, rows, noted), path

    def drop_from_postgres(self, table: Commands) -> None:
        self.postgres.psql(f"DROP TABLE {table.table}", self.postgres_url)

    def _names(self, history: bool) -> tuple[str, str | None]:
        number = next(self._numbers)
        return f"commands_{number}", f"history_{number}" if history else None
