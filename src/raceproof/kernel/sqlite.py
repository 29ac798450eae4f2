"""SQLite: how it says what all databases can do.

It has neither times nor UUIDs: a moment is a text in UTC with milliseconds, a UUID any of several texts. A row that is there
under another spelling than the caller's is never answered as missing.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from raceproof.declare.predicate import Kind
from raceproof.declare.spec import Spec
from raceproof.kernel.dialect import Name, SqlDialect, lines
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import identifier, literal, parameter, qualified, split_qualified
from raceproof.kernel.statement import BEGIN, Program, Rows, Statement

_FORMAT = "'%Y-%m-%d %H:%M:%f'"
_PLAIN = frozenset((str, int, float, bytes, type(None)))
_LENGTHS_OF_A_UUID = (32, 36)


class SqliteDialect(SqlDialect):
    """SQLite."""

    name: ClassVar[Name] = "sqlite"
    ddl_types: ClassVar[Mapping[str, str]] = {
        "text": "TEXT",
        "time": "TEXT",
        "number": "INTEGER",
        "bytes": "BLOB",
        "boolean": "INTEGER",
    }
    as_text = "CAST({} AS TEXT)"
    random_token = "lower(hex(randomblob(16)))"
    no_number = "NULL"
    no_text = "NULL"
    share_lock = row_lock = ""  # one writer at a time
    written_row = ""
    nulls_first = True
    same = "IS"

    def retried(self, statement: Statement) -> Program[Rows]:
        return (yield statement)  # a conflict is only met in a transaction of the caller's

    def begin(self, lock: Statement) -> Statement:
        return BEGIN._replace(params=(lock.text,))

    def not_found(self, asked: object, table: str, columns: Sequence[str], parts: Sequence[Any]) -> Program[None]:
        for place, part in enumerate(parts):
            known = _uuid(part)
            if known is None:
                continue
            texts = {known.hex, str(known), known.hex.upper(), str(known).upper()} - {str(part)}
            spellings = {f"spelling_{i}": one for i, one in enumerate([*sorted(texts), known.bytes])}
            others = [i for i in range(len(parts)) if i != place]
            matches = (f"t.{identifier(columns[i])} = {parameter(f'key_{i}')}" for i in others)
            slots = {
                "table": qualified(table),
                "column": identifier(columns[place]),
                "spellings": ", ".join(map(parameter, spellings)),
                "others": lines(matches, " AND"),
            }
            values = self.bound({f"key_{i}": parts[i] for i in others}) | spellings
            rows = yield self.texts("kernel").render("key.spelled", slots).bind(values)
            if rows:
                raise CallError(
                    f"{asked}: {str(part)!r} is not how {table} spells this key: {columns[place]} holds {rows[0][0]!r}. "
                    "Pass it like that, or bind the session or connection of your ORM, whose types know the spelling"
                )

    def row(self, spec: Spec[Any]) -> dict[str, str]:
        wanted = (f"t.{identifier(c)} = json_extract(w.value, '$[{i}]')" for i, c in enumerate(spec.key_columns))
        return super().row(spec) | {"t_is_wanted": " AND ".join(wanted)}

    def written(self, column: str) -> str:
        return identifier(column, "`")  # its RETURNING knows only the bare names

    def exact(self, value: str) -> str:
        return f"+{value}"  # detect_types and Django convert columns, and not expressions

    def columns(self, spec: Spec[Any]) -> Program[dict[str, str]]:
        """The columns of the table and their types, in order."""
        *schema, table = split_qualified(spec.table)
        slots = {"table_name": literal(table), "schema_name": literal(schema[-1]) if schema else "NULL"}
        rows = yield self.texts("kernel").get("table.columns", spec.table, lambda: slots).bind({})
        return {str(name): str(type_) for name, type_ in rows}

    def now(self, given: datetime | None) -> str:
        return f"strftime({_FORMAT}, 'now')" if given is None else parameter("now")

    def stored(self, values: Sequence[Any]) -> Sequence[Any]:
        return values if _PLAIN.issuperset(map(type, values)) else [convert(value) for value in values]

    def once(self, value: str) -> str:
        return value  # with no column in it, SQLite does so by itself

    def plus(self, moment: str, seconds: str) -> str:
        return f"strftime({_FORMAT}, {moment}, printf('%+.3f seconds', {seconds}))"

    def microseconds(self, moment: str) -> str:
        return f"CAST((julianday({moment}) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000"

    def seconds_text(self, moment: str) -> str:
        return f"printf('%.3f', (julianday({moment}) - 2440587.5) * 86400.0)"

    def greatest(self, first: str, second: str) -> str:
        return f"max({first}, {second})"

    def step(self, column: str) -> str:
        return f"COALESCE({self.plus(column, '0.001')}, '')"

    def unique(self, moment: str) -> str:
        return f"{moment} || printf('%06d', abs(random() % 400000))"  # rounds to the same millisecond

    def marked_at(self, column: str) -> str:
        # three parts between colons, and then seconds: what follows the last colon
        last = f"substr({column}, length(rtrim({column}, replace({column}, ':', ''))) + 1)"
        well_formed = (
            f"{column} GLOB 'PROCESSING:?*:?*:[0-9]*'",
            f"{column} NOT GLOB '*:*:*:*:*'",
            f"{last} GLOB '*[0-9]'",
            f"{last} NOT GLOB '*[^0-9.]*'",
            f"{last} NOT GLOB '*.*.*'",
            # at most so many digits before and after the point: a time in milliseconds would hold the row for ages
            f"instr({last} || '.', '.') <= 13",
            f"length({last}) - instr({last} || '.', '.') <= 9",
        )
        marked = f"strftime({_FORMAT}, CAST({last} AS REAL), 'unixepoch')"
        return f"CASE WHEN {' AND '.join(well_formed)} THEN {marked} END"

    def spelled(self, kind: Kind, value: str) -> str:
        match kind:
            case "moment":
                # Django leaves zero microseconds out, SQLAlchemy writes six digits, a stamp has three
                return f"strftime({_FORMAT}, {value})"
            case "uuid":
                # both ORMs store 32 digits, others the usual 36 characters
                return f"replace(lower({value}), '-', '')"
            case "value":
                return value


def convert(value: Any) -> Any:
    """A value as SQLite stores it."""
    if isinstance(value, UUID):
        return str(value)
    return timestamp(value) if isinstance(value, datetime) else value


def timestamp(moment: datetime) -> str:
    """A moment in the form that stamps have: UTC, milliseconds, sorts as text."""
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def _uuid(part: Any) -> UUID | None:
    if isinstance(part, UUID):
        return part
    if not isinstance(part, str) or len(part) not in _LENGTHS_OF_A_UUID:
        return None
    try:
        return UUID(part)
    except ValueError:
        return None
