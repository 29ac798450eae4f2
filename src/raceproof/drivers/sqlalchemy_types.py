"""The column types of SQLAlchemy's mapped classes, found by the name of their table."""

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, ref

from sqlalchemy import Column, Table, literal
from sqlalchemy.orm import mapperlib

from raceproof.declare.spec import Spec
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import split_qualified

Process = Callable[[Any], Any] | None


class MappedTypes:
    """The tables that mapped classes describe, on one dialect."""

    def __init__(self, dialect: Any) -> None:
        self._dialect = dialect
        self._known = _KNOWN.setdefault(dialect, {})

    def of(self, table: str) -> "TableTypes | None":
        """The types of a table; None if no class maps it."""
        known = self._known.get(table)
        if known is not None and known.alive:
            return known
        for mapped in _mapped_tables(table):
            found = self._known[table] = TableTypes(mapped, self._dialect)
            return found
        return None

    def check(self, spec: Spec[Any]) -> None:
        """A status is written as its value: a column that stores names or codes would match nothing."""
        types = self.of(spec.table)
        if types is None or spec.column not in types.columns:
            return
        for status in spec.statuses:
            stored = types.stored(spec.column, spec.status_of.get(str(status), status))
            if stored != str(status):
                raise CallError(
                    f"{spec}: the mapped column {spec.table}.{spec.column} stores {stored!r} for status {str(status)!r}, "
                    "and raceproof writes the value; map it with Enum(…, values_callable=…), which stores values, "
                    "or declare the lifecycle with the values that are stored"
                )

    def plain(self, value: Any) -> Any:
        """As SQLAlchemy would bind a literal of this kind."""
        bind, _ = _processors(literal(value).type, self._dialect)
        return value if bind is None else bind(value)


_KNOWN: "WeakKeyDictionary[Any, dict[str, TableTypes]]" = WeakKeyDictionary()


class TableTypes:
    """The columns of one mapped table."""

    def __init__(self, table: Table, dialect: Any) -> None:
        self._table = ref(table)
        self._dialect = dialect
        self.columns: dict[str, Column[Any]] = {column.name: column for column in table.columns}
        self._processors: dict[str, tuple[Process, Process]] = {}

    @property
    def alive(self) -> bool:
        return self._table() is not None

    def stored(self, column: str, value: Any) -> Any:
        bind, _ = self._of(column)
        return value if bind is None or value is None else self._noted(bind, column, value)

    def saved(self, column: str, value: Any) -> Any:
        """None too is up to the type: JSON has a null of its own, a TypeDecorator may write anything."""
        bind, _ = self._of(column)
        return value if bind is None else self._noted(bind, column, value)

    def loaded(self, column: str, value: Any) -> Any:
        _, result = self._of(column)
        return value if result is None else result(value)

    def _noted(self, bind: Callable[[Any], Any], column: str, value: Any) -> Any:
        try:
            return bind(value)
        except Exception as error:
            error.add_note(f"raceproof: the type of the mapped column {column!r} does not take {value!r}")
            raise

    def _of(self, column: str) -> tuple[Process, Process]:
        found = self._processors.get(column)
        if found is None:
            known = self.columns.get(column)
            found = (None, None) if known is None else _processors(known.type, self._dialect)
            self._processors[column] = found
        return found


def _processors(type_: Any, dialect: Any) -> tuple[Process, Process]:
    """What SQLAlchemy does to a value on its way in and out."""
    impl = type_.dialect_impl(dialect)
    try:
        result = impl.result_processor(dialect, None)
    except Exception:
        # a numeric type asks for the driver's code of the column: such drivers give numbers by themselves
        result = None
    return impl.bind_processor(dialect), result


def _mapped_tables(table: str) -> Iterator[Table]:
    """The tables of this name among all mapped classes of the process."""
    *schema, bare = split_qualified(table)
    for registry in mapperlib._all_registries():
        for mapper in registry.mappers:
            for one in mapper.tables:
                if not isinstance(one, Table) or one.name != bare:
                    continue
                if not schema or one.schema is None or one.schema == schema[-1]:
                    yield one
