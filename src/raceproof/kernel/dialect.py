"""Everything that differs between SQL databases, and nothing else. What decides is written once, in the primitives.

A new SQL database needs a dialect like those in `postgres.py` and `sqlite.py`, and a file of texts beside each primitive.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

from raceproof.declare.predicate import Kind
from raceproof.declare.spec import Spec
from raceproof.kernel.quoting import identifier, literal, parameter, qualified
from raceproof.kernel.statement import Conflicted, Prepared, Program, Rows, Statement, Style, templates

T = TypeVar("T")
Name = Literal["postgres", "sqlite"]
_TRIES = 5


class SqlDialect(ABC):
    """How one database says what all of them can do. Moments are in its own type, seconds are numbers."""

    name: ClassVar[Name]
    ddl_types: ClassVar[Mapping[str, str]]
    as_text: ClassVar[str]
    """A column as text, with `{}` for the column."""
    random_token: ClassVar[str]
    """A text that is never the same again."""
    no_number: ClassVar[str]
    no_text: ClassVar[str]
    share_lock: ClassVar[str]
    """After a SELECT: locks its rows in a way that waits for no writer, so that the answer waits for their commit."""
    row_lock: ClassVar[str]
    """The same for a decision: no other transaction changes the rows until it is committed."""
    written_row: ClassVar[str]
    """How RETURNING names the row as it was written."""
    nulls_first: ClassVar[bool]
    same: ClassVar[str]
    """Compares like `=`, and NULL is the same as NULL."""

    def __init__(self, style: Style, in_transaction: Callable[[], bool] = lambda: False) -> None:
        self.style: Style = style
        """How a parameter is written for the driver."""
        self.in_transaction = in_transaction
        """Whether the connection is in a transaction of the caller's, if its driver knows."""

    def texts(self, package: str, *shared: str, own: bool = True) -> "Texts":
        """The statements of a primitive, rendered once for all connections: files that all dialects share, and its own."""
        files = (*shared, f"{self.name}.sql") if own else shared
        return _texts(package, files, self.style, self._variant())

    def _variant(self) -> Hashable:
        """What the slots of a text depend on beside the call: the version of the server."""
        return None

    def retried(self, statement: Statement) -> Program[Rows]:
        """Run a statement that is a decision of its own: a conflict wrote nothing, so run it again.

        In a transaction of the caller's a conflict ends that transaction, which only the caller can run again.
        """
        for _ in range(0 if self.in_transaction() else _TRIES):
            try:
                return (yield statement)
            except Conflicted:
                continue
        return (yield statement)

    def bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Named values as the database's driver takes them."""
        return dict(zip(values, self.stored(tuple(values.values())), strict=True))

    @abstractmethod
    def begin(self, lock: Statement) -> Statement:
        """What begins the transaction of a program; `lock` takes the write lock inside a transaction of the caller's."""

    @abstractmethod
    def not_found(self, asked: object, table: str, columns: Sequence[str], parts: Sequence[Any]) -> Program[None]:
        """Refuse a key that was not found although its row is there, under another spelling of the same value."""

    @abstractmethod
    def now(self, given: datetime | None) -> str:
        """The store's clock, or the parameter `now` where a test gives the time."""

    @abstractmethod
    def stored(self, values: Sequence[Any]) -> Sequence[Any]:
        """Values as the database's driver takes them."""

    @abstractmethod
    def once(self, value: str) -> str:
        """A value that is the same for all rows, computed once for the whole statement."""

    @abstractmethod
    def plus(self, moment: str, seconds: str) -> str: ...
    @abstractmethod
    def microseconds(self, moment: str) -> str: ...
    @abstractmethod
    def seconds_text(self, moment: str) -> str: ...
    @abstractmethod
    def greatest(self, first: str, second: str) -> str: ...
    @abstractmethod
    def step(self, column: str) -> str:
        """The smallest later moment."""

    @abstractmethod
    def unique(self, moment: str) -> str:
        """A moment that no other statement has."""

    @abstractmethod
    def marked_at(self, column: str) -> str:
        """When the text marker in a column was written; NULL if it is not one."""

    @abstractmethod
    def spelled(self, kind: Kind, value: str) -> str:
        """A moment or a UUID in one spelling, where a column may have several."""

    # What the texts of all primitives share

    def row(self, spec: Spec[Any]) -> dict[str, str]:
        """The slots that depend on the lifecycle alone."""
        columns = [identifier(column) for column in spec.key_columns]
        return {
            "table": qualified(spec.table),
            "status": identifier(spec.column),
            "lifecycle": literal(spec.name),
            "history": qualified(spec.history.table) if spec.history else "",
            "key_matches": lines((f"t.{c} = {parameter(f'key_{i}')}" for i, c in enumerate(columns)), " AND"),
            "tenant_matches": f"t.{identifier(spec.tenant)} = {parameter('key_0')}" if spec.tenant else "",
            "t_keys": ", ".join(f"t.{c}" for c in columns),
            "keys": ", ".join(f"t.{c} AS rp_key_{i}" for i, c in enumerate(columns)),
            "own_keys": ", ".join(f"rp_key_{i}" for i in range(len(columns))),
            "t_is_cur": " AND ".join(f"t.{c} = cur.rp_key_{i}" for i, c in enumerate(columns)),
            "revision": f"t.{identifier(spec.revision)}" if spec.revision else self.no_number,
            "key_text": self.key_text(spec) if spec.history else self.no_text,
            "written_keys": ", ".join(map(self.written, spec.key_columns)),
            "written_revision": self.written(spec.revision) if spec.revision else self.no_number,
            "written_key_text": self.key_text(spec, self.written_row) if spec.history else self.no_text,
        }

    def written(self, column: str) -> str:
        """A column in RETURNING: of the row as it was written."""
        return f"t.{identifier(column)}"

    def exact(self, value: str) -> str:
        """A value that no converter of the connection's may round, as a fence."""
        return value

    def status_text(self, spec: Spec[Any]) -> str:
        """The status as text, whatever type its column has."""
        return f"t.{identifier(spec.column)}"

    def key_text(self, spec: Spec[Any], row: str = "t.") -> str:
        """`raceproof.kernel.keys.key_text` in SQL."""
        columns = [self.as_text.format(row + identifier(column)) for column in spec.key_columns]
        if len(columns) == 1:
            return columns[0]
        return " || ':' || ".join(f"replace(replace({column}, '%', '%25'), ':', '%3A')" for column in columns)

    def later(self, quoted: str, ahead: str, now: str) -> str:
        """A timestamp that is a fence. P4: no two have the same, even if the clock is coarse, or was set back a little.

        If it was set back by more, it starts again from now: otherwise no process could hold the row until then.
        """
        least = self.greatest(now, self.step(f"t.{quoted}"))
        return self.unique(f"CASE WHEN {ahead} THEN {now} ELSE {least} END")


class Texts:
    """The statements of one primitive in one dialect, each rendered once and kept."""

    def __init__(self, package: str, files: Iterable[str], style: Style) -> None:
        self.style: Style = style
        self._templates = {
            name: template for file in files for name, template in templates(f"raceproof.{package}", file).items()
        }
        self._kept: dict[Hashable, Any] = {}

    def get(self, name: str, shape: Hashable, slots: Callable[[], Mapping[str, str]]) -> Prepared:
        """The statement `name` for calls of one `shape`: those with the same slots."""
        key = (name, shape)
        found: Prepared | None = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._templates[name].prepare(slots(), self.style)
        return found

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Several statements that belong together, made once."""
        found: T | None = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found

    def render(self, name: str, slots: Mapping[str, str]) -> Prepared:
        """A statement whose slots are never the same again, or that its caller keeps."""
        return self._templates[name].prepare(slots, self.style)

    def fill(self, name: str, slots: Mapping[str, str]) -> str:
        """A part of a statement."""
        return self._templates[name].fill(slots)


@cache
def _texts(package: str, files: tuple[str, ...], style: Style, variant: Hashable) -> Texts:
    return Texts(package, files, style)


def lines(parts: Iterable[str], separator: str) -> str:
    """Join what is not empty, one on a line, as a person would write it."""
    return (separator + "\n      ").join(part for part in parts if part)


def unmet(found: Iterable[tuple[int, str]]) -> str:
    """The guards that do not hold, as one number; NULL does not hold."""
    return "\n         + ".join(f"CASE WHEN {text} THEN 0 ELSE {bit} END" for bit, text in found) or "0"


def column_list(names: Iterable[str], prefix: str, mark: str = '"') -> str:
    return "".join(f", {prefix}{identifier(name, mark)}" for name in names)


def listed(statuses: Iterable[Any]) -> str:
    """Statuses, or other constants, between the parentheses of IN."""
    return ", ".join(literal(str(status)) for status in statuses)
