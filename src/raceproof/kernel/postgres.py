"""PostgreSQL: how it says what all databases can do, and what it knows of its version and the user's tables."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from raceproof.declare.predicate import Kind
from raceproof.declare.spec import Spec
from raceproof.kernel.dialect import Name, SqlDialect
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import literal, parameter, qualified
from raceproof.kernel.statement import BEGIN, Program, Statement, Style, reading

_RETURNS_OLD = 18
_SMALL_FOR = 60.0
"""Seconds after which a table without statistics is looked at again."""


class Table(NamedTuple):
    """What PostgreSQL knows of a table."""

    partitioned: bool
    """Its rows are in several tables, or it is not a table."""
    grown: bool
    """It has statistics, and of more than a few rows: a plan that is made once is made for a big table."""


class Catalogue:
    """What PostgreSQL said about the tables of one database: asked once, shared by all stores on it."""

    __slots__ = ("__weakref__", "tables", "types")

    def __init__(self) -> None:
        self.types: dict[Spec[Any], dict[str, str]] = {}
        self.tables: dict[Spec[Any], tuple[Table, float]] = {}
        """With the time of asking: a table may grow."""


class PostgresDialect(SqlDialect):
    """PostgreSQL."""

    name: ClassVar[Name] = "postgres"
    ddl_types: ClassVar[Mapping[str, str]] = {
        "text": "text",
        "time": "timestamptz",
        "number": "bigint",
        "bytes": "bytea",
        "boolean": "boolean",
    }
    as_text = "{}::text"
    random_token = "gen_random_uuid()::text"
    no_number = "NULL::bigint"
    no_text = "NULL::text"
    share_lock = "FOR KEY SHARE OF t"
    row_lock = "FOR NO KEY UPDATE OF t"
    written_row = "t."
    nulls_first = False
    same = "IS NOT DISTINCT FROM"

    def __init__(
        self,
        style: Style,
        version: int = 0,
        catalogue: Catalogue | None = None,
        in_transaction: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(style, in_transaction)
        self.version = version
        """The server's major version; 0 if it is not known yet."""
        self.by_index = False
        """Whether rows are found by an index on this connection, whatever the statistics say: then a plan can be kept."""
        self._catalogue = Catalogue() if catalogue is None else catalogue
        self._texts = self.texts("kernel")

    @property
    def returns_old(self) -> bool:
        """Whether RETURNING knows the old row."""
        return self.version >= _RETURNS_OLD

    def _variant(self) -> Hashable:
        return self.returns_old

    def begin(self, lock: Statement) -> Statement:
        return BEGIN  # a statement locks its rows by itself

    def not_found(self, asked: object, table: str, columns: Sequence[str], parts: Sequence[Any]) -> Program[None]:
        return  # the column's type compares values, however they are spelled
        yield

    def now(self, given: datetime | None) -> str:
        return "statement_timestamp()" if given is None else parameter("now") + "::timestamptz"

    def stored(self, values: Sequence[Any]) -> Sequence[Any]:
        return values

    def once(self, value: str) -> str:
        return f"(SELECT {value})"

    def plus(self, moment: str, seconds: str) -> str:
        return f"{moment} + make_interval(secs => {seconds}::float8)"

    def microseconds(self, moment: str) -> str:
        return f"(extract(epoch FROM {moment}) * 1000000)::bigint"

    def seconds_text(self, moment: str) -> str:
        return f"extract(epoch FROM {moment})::numeric(20, 6)::text"

    def greatest(self, first: str, second: str) -> str:
        return f"GREATEST({first}, {second})"

    def step(self, column: str) -> str:
        return f"{column} + INTERVAL '1 microsecond'"

    def unique(self, moment: str) -> str:
        return moment  # no two statements have the same microsecond

    def marked_at(self, column: str) -> str:
        seconds = f"substring({column} FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{{1,12}}([.][0-9]{{1,9}})?)$')"
        return f"to_timestamp({seconds}::float8)"

    def spelled(self, kind: Kind, value: str) -> str:
        return value

    def status_text(self, spec: Spec[Any]) -> str:
        return super().status_text(spec) + "::text"

    # The user's tables

    def table(self, spec: Spec[Any]) -> Program[Table]:
        """What kind of table the rows are in; asked again every minute while it is small."""
        known, asked = self._catalogue.tables.get(spec, (None, 0.0))
        now = time.monotonic()
        if known is not None and (known.grown or now - asked < _SMALL_FOR):
            return known
        rows = yield from reading(self._ask("table.kind", spec))
        found = Table(*map(bool, rows[0])) if rows else Table(partitioned=True, grown=False)
        self._catalogue.tables[spec] = found, now
        return found

    def columns(self, spec: Spec[Any]) -> Program[dict[str, str]]:
        """The columns of the table and their types, in order."""
        rows = yield from self._ask("table.columns", spec)
        return {str(name): str(type_) for name, type_ in rows}

    def column_types(self, spec: Spec[Any]) -> Program[dict[str, str]]:
        """The types of the columns that bulk moves and claims pass as arrays."""
        if known := self._catalogue.types.get(spec):
            return known
        found = yield from reading(self.columns(spec))
        types = {}
        for column in (*spec.key_columns, *(c for one in spec.moves.values() for c in one.sets)):
            if column not in found:
                raise CallError(
                    f"{spec}: table {spec.table} has no column {column!r}; `raceproof verify` shows what differs"
                )
            types[column] = found[column]
        types |= {c: found[c] for c in (one.form.fence_column for one in spec.claims.values()) if c in found}
        self._catalogue.types[spec] = types
        return types

    def _ask(self, name: str, spec: Spec[Any]) -> Program[Any]:
        return (yield self._texts.get(name, spec, lambda: {"regclass": literal(qualified(spec.table))}).bind({}))
