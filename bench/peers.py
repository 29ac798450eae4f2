"""What people use today, on PostgreSQL: SQLAlchemy's select-for-update and django-fsm-2's mixin, each as its manual says.

Beside each: ours on the same framework's connection, and ours by `connect(url)`. One caller, history off.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from bench import ours
from bench.commands import Commands, slices, walk
from bench.measure import Side, interleave, not_none
from bench.raw import Call
from bench.result import Comparison, Result, Run, by_time
from bench.world import World
from raceproof import bind, connect

_ROWS = 600

Opening = Callable[[World, Commands, AsyncExitStack], tuple[Call, Call]]
"""Gives our call on the framework's connection, and the framework's own way."""


def comparisons(world: World) -> Iterator[Comparison]:
    peers: list[tuple[str, Opening, str]] = [
        ("SQLAlchemy ORM select-for-update", _sqlalchemy, "ours in its session"),
        ("django-fsm-2 ConcurrentTransitionMixin", _django, "ours on Django's connection"),
    ]
    for name, opening, way in peers:
        yield Comparison(name, _measured(world, name, opening, way))


def _measured(world: World, name: str, opening: Opening, way: str) -> Run:
    async def run() -> list[Result]:
        table = world.on_postgres(_ROWS)
        async with AsyncExitStack() as stack:
            within, peer = opening(world, table, stack)
            db = stack.enter_context(connect(world.postgres_url))
            rows = slices(range(_ROWS), 3)
            sides = [
                Side(within, walk(rows[0]), ours.won),
                Side(ours.one(db, table), walk(rows[1]), ours.won),
                Side(peer, walk(rows[2]), not_none),
            ]
            scale = world.scale
            taken = await interleave(sides, scale.rounds, scale.permits * 1.5, scale.alone, world.postgres)
        bound, connected, theirs = taken.medians
        costs = taken.costs
        return [
            by_time(f"{name} · {way}", bound, theirs, costs=[costs[0], costs[2]]),
            by_time(f"{name} · ours by connect", connected, theirs, costs=[costs[1], costs[2]]),
        ]

    return run


def _sqlalchemy(world: World, table: Commands, stack: AsyncExitStack) -> tuple[Call, Call]:
    class Base(DeclarativeBase):
        pass

    class Command(Base):
        __tablename__ = table.table
        cmd_id: Mapped[str] = mapped_column(primary_key=True)
        status: Mapped[str]
        rev: Mapped[int] = mapped_column(sqlalchemy.BigInteger)

    engine = sqlalchemy.create_engine(world.postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    stack.callback(engine.dispose)

    def peer(step: int, key: str) -> int | None:
        move = table.moves[step]
        with Session(engine) as session:
            found = sqlalchemy.select(Command).where(Command.cmd_id == key).with_for_update()
            row = session.execute(found).scalar_one()
            if row.status not in move.sources:
                return None
            row.status = move.target
            row.rev += 1
            session.commit()
        return step

    def within(step: int, key: str) -> Any:
        with Session(engine) as session:
            answer = bind(session).move(table.moves[step], key)
            session.commit()
        return answer

    return within, peer


def _django(world: World, table: Commands, stack: AsyncExitStack) -> tuple[Call, Call]:
    _set_up_django(world.postgres_url)
    from django.db import connection, models, transaction
    from django_fsm import ConcurrentTransitionMixin, FSMField, FSMModelMixin, transition

    sending, failing = table.moves

    class Command(ConcurrentTransitionMixin, FSMModelMixin, models.Model):
        cmd_id: Any = models.TextField(primary_key=True)
        status = FSMField(default="QUEUED")
        rev: Any = models.BigIntegerField()

        @transition(field=status, source=list(sending.sources), target=sending.target)
        def send(self) -> None:
            self.rev += 1

        @transition(field=status, source=list(failing.sources), target=failing.target)
        def fail(self) -> None:
            self.rev += 1

        class Meta:
            app_label = "bench"
            db_table = table.table

    def peer(step: int, key: str) -> int:
        with transaction.atomic():
            row = Command.objects.get(pk=key)
            if step == 0:
                row.send()
            else:
                row.fail()
            row.save()
        return step

    stack.callback(connection.close)
    return ours.one(bind(connection), table), peer


@cache
def _set_up_django(url: str) -> None:
    import django
    from django.conf import settings

    # the measuring loop is a coroutine that never waits here; Django would refuse to work inside of one
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    place = urlsplit(url)
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": place.hostname,
                "PORT": place.port,
                "USER": place.username,
                "NAME": place.path.removeprefix("/"),
                "CONN_MAX_AGE": None,
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
