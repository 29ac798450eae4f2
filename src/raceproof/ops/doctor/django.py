"""Django's system checks: `manage.py check` compares models with declarations, `--database` runs the doctor.

    class ShopConfig(AppConfig):
        def ready(self) -> None:
            register_checks(Job, logins)

Without a database only declarations are compared: the model whose `db_table` a lifecycle names has its columns, and its
choices are its statuses. With `manage.py check --database default` the doctor looks at that database, bounded as always.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import connections
from django.db.models.sql import Query

from raceproof.declare.spec import Spec
from raceproof.drivers.bind import bind
from raceproof.ops.doctor.diagnose import diagnose
from raceproof.ops.doctor.finding import Problem, Thing
from raceproof.ops.doctor.patient import subjects_of
from raceproof.schema.needed import columns_of

_NUMBERS = {
    "schema": 11,
    "guard": 12,
    "index": 13,
    "status": 14,
    "owner": 15,
    "clock": 16,
    "pooler": 17,
    "stuck": 18,
    "durability": 19,
    "primary": 20,
}
Found = list[checks.CheckMessage]


def register_checks(*things: Thing, ignore: Iterable[str] = ()) -> None:
    """Register checks for these declarations; `ignore` names checks of the doctor to skip, such as `guard`."""
    checks.register(_of_models(things), checks.Tags.models)
    checks.register(_of_databases(things, tuple(ignore)), checks.Tags.database)


def _of_models(things: Sequence[Thing]) -> Callable[..., Found]:
    def check_models(app_configs: Any, **_: Any) -> Found:
        models = {_options(model).db_table: model for model in apps.get_models()}
        wanted = None if app_configs is None else {config.label for config in app_configs}
        found: Found = []
        for subject in subjects_of(things):
            model = models.get(subject.thing.table) if isinstance(subject.thing, Spec) else None
            if model is not None and (wanted is None or _options(model).app_label in wanted):
                found += _compared(subject.thing, model)
        return found

    return check_models


def _options(model: Any) -> Any:
    """What Django knows of a model: its table, label and fields."""
    return Query(model).get_meta()


def _compared(thing: Any, model: Any) -> Iterator[checks.CheckMessage]:
    fields = {field.column: field for field in _options(model).concrete_fields}
    if missing := [column for column in columns_of(thing) if column not in fields]:
        yield checks.Error(
            f"{_options(model).label} lacks {', '.join(missing)}, which {thing} declares",
            hint="Add the fields, or correct the declaration.",
            obj=model,
            id="raceproof.E001",
        )
    field = fields.get(thing.column)
    if field is None or not field.flatchoices:
        return
    chosen, declared = {str(value) for value, _ in field.flatchoices}, {str(one) for one in thing.statuses}
    if chosen != declared:
        odd = ", ".join(sorted(chosen ^ declared))
        yield checks.Warning(
            f"the choices of {_options(model).label}.{field.name} are not the statuses of {thing}: {odd}",
            hint="Derive both from one enum.",
            obj=model,
            id="raceproof.W002",
        )


def _of_databases(things: Sequence[Thing], ignore: tuple[str, ...]) -> Callable[..., Found]:
    def check_databases(databases: Iterable[str] | None = None, **_: Any) -> Found:
        found: Found = []
        for alias in databases or ():
            connection = connections[alias]
            if connection.vendor in ("postgresql", "sqlite"):
                problems = diagnose(bind(connection), *things, ignore=ignore).problems
                found += [_message(alias, one) for one in problems]
        return found

    return check_databases


def _message(alias: str, one: Problem) -> checks.CheckMessage:
    number = _NUMBERS[one.check.partition(".")[0]]
    kind, letter = (checks.Error, "E") if one.level == "error" else (checks.Warning, "W")
    hint = one.repair.text if one.repair else None
    return kind(f"{alias}: {one.target}: {one.what}", hint=hint, id=f"raceproof.{letter}{number:03d}")
