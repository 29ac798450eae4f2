"""bind has the right type with mypy and pyright, whichever optional packages and stubs are installed."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.library.typing.checkers import CHECKERS, PACKAGES, STUBS, Report, environment


@dataclass(frozen=True)
class Kind:
    """An expression that is a connection, and the store that bind gives for it."""

    package: str
    imports: str
    annotation: str
    store: str


KINDS = [
    Kind("sqlite3", "import sqlite3", "sqlite3.Connection", "Store"),
    Kind("psycopg", "import psycopg", "psycopg.Connection[tuple[object, ...]]", "Store"),
    Kind("psycopg", "import psycopg", "psycopg.AsyncConnection[tuple[object, ...]]", "AsyncStore"),
    Kind("asyncpg", "import asyncpg", "asyncpg.Connection", "AsyncStore"),
    Kind("asyncpg", "import asyncpg", "asyncpg.Pool", "AsyncStore"),
    Kind("asyncpg", "import asyncpg.pool", "asyncpg.pool.PoolConnectionProxy", "AsyncStore"),
    Kind("redis", "import redis", "redis.Redis", "Store"),
    Kind("redis", "import redis", "redis.RedisCluster", "Store"),
    Kind("redis", "import redis.asyncio", "redis.asyncio.Redis", "AsyncStore"),
    Kind("redis", "import redis.asyncio", "redis.asyncio.RedisCluster", "AsyncStore"),
    Kind("sqlalchemy", "import sqlalchemy", "sqlalchemy.Connection", "Store"),
    Kind("sqlalchemy", "import sqlalchemy.orm", "sqlalchemy.orm.Session", "Store"),
    Kind("sqlalchemy", "import sqlalchemy.ext.asyncio", "sqlalchemy.ext.asyncio.AsyncConnection", "AsyncStore"),
    Kind("sqlalchemy", "import sqlalchemy.ext.asyncio", "sqlalchemy.ext.asyncio.AsyncSession", "AsyncStore"),
    Kind(
        "django",
        "import django.db.backends.base.base",
        "django.db.backends.base.base.BaseDatabaseWrapper",
        "Store",
    ),
]

# what bind takes for no connection, and says so at run time too
REFUSED = {
    "sqlalchemy.Engine": "import sqlalchemy",
    "sqlalchemy.ext.asyncio.AsyncEngine": "import sqlalchemy.ext.asyncio",
    "sqlalchemy.orm.scoped_session[sqlalchemy.orm.Session]": "import sqlalchemy.orm",
    "sqlite3.Cursor": "import sqlite3",
    "io.BytesIO": "import io",
    "str": "",
}

HEAD = """
from enum import StrEnum
from raceproof import Lifecycle, bind, move

class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"

class Command(Lifecycle[Status], table="commands", key="cmd_id"):
    send = move(Status.QUEUED, to=Status.SENT)
"""
USE = {
    "Store": """
def use_{number}(given: "{annotation}") -> bool:
    reveal_type(bind(given))
    return bind(given).move(Command.send, 1).reached
""",
    "AsyncStore": """
async def use_{number}(given: "{annotation}") -> bool:
    reveal_type(bind(given))
    return (await bind(given).move(Command.send, 1)).reached
""",
}
DJANGO = """
import django.db
reveal_type(bind(django.db.connection))
"""


def probe(folder: Path, packages: Iterable[str]) -> Path:
    """A file that reveals bind's type for each kind of these packages, and uses what it returns."""
    kinds = [kind for kind in KINDS if kind.package in ("sqlite3", *packages)]
    parts = [*dict.fromkeys(kind.imports for kind in kinds), HEAD]
    for number, kind in enumerate(kinds):
        parts.append(USE[kind.store].format(number=number, annotation=kind.annotation))
    if "django" in packages:
        parts.append(DJANGO)
    file = folder / "probe.py"
    file.write_text("\n".join(parts))
    return file


def expected(packages: Iterable[str], untyped: Iterable[str] = ()) -> Report:
    """Each store as it is declared above, and Any for the classes that the checker cannot read."""
    revealed = [
        "Any" if kind.package in untyped else kind.store for kind in KINDS if kind.package in ("sqlite3", *packages)
    ]
    if "django" in packages:
        revealed.append("Any" if "django" in untyped else "Store")
    return Report(tuple(revealed), errors=())


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize(
    "packages",
    [tuple(PACKAGES), ("sqlalchemy", "redis"), ()],
    ids=lambda packages: "+".join(packages) or "none",
)
def test_packages_without_stubs_or_not_installed_leave_the_other_connections_typed(
    checker: str, packages: tuple[str, ...], tmp_path: Path
) -> None:
    # mypy reads no package without types: its classes are Any there, and so is what bind makes of one
    untyped = STUBS if checker == "mypy" else ()
    python = environment(tmp_path / "venv", packages, stubs=False)
    assert CHECKERS[checker](python, probe(tmp_path, packages)) == expected(packages, untyped)


@pytest.mark.parametrize("checker", CHECKERS)
def test_with_every_package_and_its_stubs_the_public_api_has_its_types(checker: str, tmp_path: Path) -> None:
    api = tmp_path / "api.py"
    api.write_text((Path(__file__).parent / "api.py").read_text())
    refused = tmp_path / "refused.py"
    uses = [f'def use_{n}(given: "{annotation}"): bind(given)' for n, annotation in enumerate(REFUSED)]
    refused.write_text("\n".join(["from raceproof import bind", *uses, *REFUSED.values()]))
    python = environment(tmp_path / "venv", PACKAGES, stubs=True)
    report = CHECKERS[checker](python, probe(tmp_path, PACKAGES), api, refused)
    assert report.revealed == expected(PACKAGES).revealed
    assert [error for error in report.errors if not error.startswith("refused.py")] == []
    lines = {int(error.split(":")[1]) for error in report.errors if "overload" in error}
    assert lines == {2 + n for n in range(len(REFUSED))}, report.errors
