"""Tables that an ORM made and maps, with a column of each type, and how its users read and write them."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import sqlalchemy as sa
from django.apps import apps
from django.db import models
from sqlalchemy.orm import DeclarativeBase, Session

from raceproof import Lifecycle, Store, bind
from raceproof.declare import Spec
from tests.integrations.own.fix_django import django_on_postgres, django_on_sqlite

_numbers = itertools.count(1)
FIRST = UUID("5448d865-b2ef-4f5e-9b1a-0a5f6f8a0001")
SECOND = UUID("5448d865-b2ef-4f5e-9b1a-0a5f6f8a0002")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Color(Enum):
    """Whose names are not its values."""

    RED = "r"
    BLUE = "b"


class Cleaned(sa.TypeDecorator[Any]):
    """JSON without NUL, which PostgreSQL does not take: what a project adds for a reason."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return {key: text.replace("\0", "") for key, text in value.items()} if value else value


class Prefixed(sa.TypeDecorator[str]):
    """Keys that people see as `usr_7` and the database as 7."""

    impl = sa.Integer
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> int | None:
        return None if value is None else int(value.removeprefix("usr_"))

    def process_result_value(self, value: int | None, dialect: Any) -> str | None:
        return None if value is None else f"usr_{value}"


class Status(StrEnum):
    """The statuses of all of them."""

    NEW = "new"
    RUNNING = "running"
    DONE = "done"


SQLALCHEMY_KEYS: dict[str, tuple[Any, Any, Any]] = {
    "uuid": (sa.Uuid, FIRST, SECOND),
    "uuid-as-text": (lambda: sa.Uuid(as_uuid=False), str(FIRST), str(SECOND)),
    "uuid-not-native": (lambda: sa.Uuid(native_uuid=False), FIRST, SECOND),
    "integer": (sa.Integer, 7, 8),
    "bigint": (sa.BigInteger, 2**53 - 1, 2**53 - 2),
    "text": (sa.Text, "c-42", "c-43"),
    "string": (lambda: sa.String(40), "ä'; --", "b"),
    "decorated": (Prefixed, "usr_7", "usr_8"),
}
SQLALCHEMY_VALUES: dict[str, tuple[Any, Any, Any]] = {
    "json": (sa.JSON, {"a": [1, None]}, {"b": "ü"}),
    "cleaned-json": (Cleaned, {"a": "x"}, {"a": "y"}),
    "datetime": (sa.DateTime, NOON.replace(tzinfo=None), NOON.replace(tzinfo=None, microsecond=125000)),
    "date": (sa.Date, date(2026, 1, 31), date(2026, 2, 1)),
    "time": (sa.Time, time(12, 30), time(12, 31, 5)),
    "interval": (sa.Interval, timedelta(hours=3), timedelta(minutes=1)),
    "numeric": (lambda: sa.Numeric(10, 2), Decimal("12.50"), Decimal("0.25")),
    "float": (sa.Float, 1.5, 2.25),
    "boolean": (sa.Boolean, True, False),
    "enum-by-name": (lambda: sa.Enum(Color, native_enum=False), Color.RED, Color.BLUE),
    "bytes": (sa.LargeBinary, b"\0\xff", b"x"),
    "uuid": (sa.Uuid, FIRST, SECOND),
    "text": (sa.Text, "one", "two"),
}
DJANGO_KEYS: dict[str, tuple[Any, Any, Any]] = {
    "uuid": (models.UUIDField, FIRST, SECOND),
    "integer": (models.IntegerField, 7, 8),
    "bigint": (models.BigIntegerField, 2**53 - 1, 2**53 - 2),
    "text": (models.TextField, "c-42", "c-43"),
    "char": (lambda **options: models.CharField(max_length=40, **options), "ä'; --", "b"),
}
DJANGO_VALUES: dict[str, tuple[Any, Any, Any]] = {
    "json": (models.JSONField, {"a": [1, None]}, {"b": "ü"}),
    "datetime": (models.DateTimeField, NOON, NOON.replace(microsecond=125000)),
    "date": (models.DateField, date(2026, 1, 31), date(2026, 2, 1)),
    "time": (models.TimeField, time(12, 30), time(12, 31, 5)),
    "duration": (models.DurationField, timedelta(hours=3), timedelta(minutes=1)),
    "decimal": (
        lambda **options: models.DecimalField(max_digits=10, decimal_places=2, **options),
        Decimal("12.50"),
        Decimal("0.25"),
    ),
    "float": (models.FloatField, 1.5, 2.25),
    "boolean": (models.BooleanField, True, False),
    "bytes": (models.BinaryField, b"\0\xff", b"x"),
    "uuid": (models.UUIDField, FIRST, SECOND),
    "text": (models.TextField, "one", "two"),
}


def declared(table: str) -> Spec[Any]:
    """The lifecycle of such a table."""
    return Lifecycle.from_dict(
        {
            "name": "Job",
            "table": table,
            "statuses": [str(status) for status in Status],
            "moves": {
                "start": {"from": ["new"], "to": "running"},
                "finish": {
                    "from": ["new", "running"],
                    "to": "done",
                    "sets": ["value"],
                    "stamp": ["ended_at"],
                },
                "back": {"from": ["running"], "to": "new"},
            },
            "claims": {"work": {"move": "start", "back": "back", "lease": 30}},
        }
    )


class Mapped(Protocol):
    """A table of an ORM's, and the library on the ORM's connection."""

    spec: Spec[Any]
    db: Store

    def put(self, key: Any, value: Any) -> None: ...
    def get(self, key: Any) -> Any:
        """The row as the ORM reads it: with key, status, value and ended_at."""
        ...


class SqlalchemyTable:
    """A declarative class and a session."""

    def __init__(self, session: Session, key: Any, value: Any) -> None:
        table = f"orm_{os.getpid()}_{next(_numbers)}"

        class Base(DeclarativeBase):
            pass

        self.model: Any = type(
            "Job",
            (Base,),
            {
                "__tablename__": table,
                "id": sa.Column(key(), primary_key=True, autoincrement=False),
                "status": sa.Column(sa.String(20)),
                "value": sa.Column(value()),
                "ended_at": sa.Column(sa.DateTime(timezone=True)),
                "claimed_by": sa.Column(sa.Text),
                "claimed_until": sa.Column(sa.DateTime(timezone=True)),
                "fence": sa.Column(sa.BigInteger),
            },
        )
        self.session = session
        self.spec = declared(table)
        Base.metadata.create_all(session.connection())
        self.db = bind(session)

    def put(self, key: Any, value: Any) -> None:
        self.session.add(self.model(id=key, status="new", value=value))
        self.session.flush()
        self.session.expunge_all()

    def get(self, key: Any) -> Any:
        self.session.expunge_all()
        return self.session.get_one(self.model, key)


class DjangoTable:
    """A model and the connection that it is on."""

    def __init__(self, own: Any, key: Any, value: Any) -> None:
        table = f"orm_{os.getpid()}_{next(_numbers)}"
        meta = type("Meta", (), {"app_label": "orm", "db_table": table})
        self.model: Any = type(
            table.title().replace("_", ""),
            (models.Model,),
            {
                "__module__": __name__,
                "Meta": meta,
                "id": key(primary_key=True),
                "status": models.CharField(max_length=20),
                "value": value(null=True),
                "ended_at": models.DateTimeField(null=True),
                "claimed_by": models.TextField(null=True),
                "claimed_until": models.DateTimeField(null=True),
                "fence": models.BigIntegerField(null=True),
            },
        )
        self.alias = own.alias
        self.spec = declared(table)
        with own.connection.schema_editor() as editor:
            editor.create_model(self.model)
        self.db = bind(own.connection)

    def put(self, key: Any, value: Any) -> None:
        self.model.objects.using(self.alias).create(id=key, status="new", value=value)

    def get(self, key: Any) -> Any:
        found = self.model.objects.using(self.alias).get(id=key)
        if isinstance(found.value, memoryview):
            found.value = bytes(found.value)
        return found


@contextmanager
def sqlalchemy_table(url: str, key: Any, value: Any) -> Iterator[SqlalchemyTable]:
    engine = sa.create_engine(url)
    try:
        with Session(engine) as session:
            yield SqlalchemyTable(session, key, value)
    finally:
        engine.dispose()


@contextmanager
def django_table(url: str, path: Path | None, key: Any, value: Any) -> Iterator[DjangoTable]:
    own = django_on_postgres(url) if path is None else django_on_sqlite(path)
    table = None
    try:
        table = DjangoTable(own, key, value)
        yield table
    finally:
        if table is not None:
            apps.all_models["orm"].clear()
            apps.clear_cache()
        own.connection.close()
        from django.db import connections

        del connections[own.alias]
        del connections.settings[own.alias]
