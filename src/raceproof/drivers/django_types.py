"""The fields of Django's models, found by the name of their table."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import models

from raceproof.declare.spec import Spec
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import split_qualified


class ModelTypes:
    """The tables that models describe, on one of Django's connections."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._known: dict[str, FieldTypes] = {}

    def of(self, table: str) -> "FieldTypes | None":
        """The types of a table; None if no model has it."""
        known = self._known.get(table)
        if known is None:
            model = _model(table)
            if model is None:
                return None
            known = self._known[table] = FieldTypes(model, self._connection)
        return known

    def check(self, spec: Spec[Any]) -> None:
        """A status is written as its value: a column that stores codes would match nothing."""
        types = self.of(spec.table)
        if types is None:
            return
        for status in spec.statuses:
            stored = types.stored(spec.column, str(status))
            if stored != str(status):
                raise CallError(
                    f"{spec}: the field of {spec.table}.{spec.column} stores {stored!r} for status {str(status)!r}, and "
                    "raceproof writes the value; declare the lifecycle with the values that are stored"
                )

    def plain(self, value: Any) -> Any:
        """As the usual field for a value of this kind stores it."""
        for kind, field in _USUAL:
            if isinstance(value, kind):
                return field.get_db_prep_value(value, self._connection)
        return value


class FieldTypes:
    """The fields of one model by their columns."""

    def __init__(self, model: type[models.Model], connection: Any) -> None:
        self._connection = connection
        self._fields: dict[str | None, Any] = {field.column: field for field in model._meta.concrete_fields}
        self._converters: dict[str, list[Any]] = {}

    def stored(self, column: str, value: Any) -> Any:
        field = self._fields.get(column)
        if field is None or value is None:
            return value
        return self._noted(field.get_db_prep_value, column, value)

    def saved(self, column: str, value: Any) -> Any:
        """A JSON field has a null of its own; saving None writes NULL."""
        field = self._fields.get(column)
        return value if field is None else self._noted(field.get_db_prep_save, column, value)

    def loaded(self, column: str, value: Any) -> Any:
        converters = self._converters.get(column)
        if converters is None:
            converters = self._converters[column] = self._made(column)
        for convert, expression in converters:
            value = convert(value, expression, self._connection)
        return value

    def _made(self, column: str) -> list[Any]:
        field = self._fields.get(column)
        if field is None:
            return []
        expression = field.get_col(field.model._meta.db_table)
        found = [*self._connection.ops.get_db_converters(expression), *expression.get_db_converters(self._connection)]
        return [(convert, expression) for convert in found]

    def _noted(self, prepare: Any, column: str, value: Any) -> Any:
        try:
            return prepare(value, connection=self._connection)
        except Exception as error:
            error.add_note(f"raceproof: the field of column {column!r} does not take {value!r}")
            raise


_USUAL: tuple[tuple[Any, Any], ...] = (
    (UUID, models.UUIDField()),
    (datetime, models.DateTimeField()),
    (date, models.DateField()),
    (time, models.TimeField()),
    (timedelta, models.DurationField()),
    (Decimal, models.DecimalField(max_digits=1000, decimal_places=None)),
    (dict | list, models.JSONField()),
)


def _model(table: str) -> type[models.Model] | None:
    """The model with this table; of several the one that Django manages."""
    *_, bare = split_qualified(table)
    found = [
        model
        for by_name in apps.all_models.values()
        for model in by_name.values()
        if not model._meta.proxy and model._meta.db_table.replace('"', "").rpartition(".")[2] in (bare, table)
    ]
    found.sort(key=lambda model: not model._meta.managed)
    return found[0] if found else None
