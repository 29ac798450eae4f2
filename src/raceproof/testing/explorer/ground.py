"""What a scenario is explored on: a store that can be put back to its beginning, with a clock that the run sets.

Statements run one at a time, inline, in the order of the schedule. What a driver of the library would do with BEGIN, COMMIT
and ROLLBACK is done here with the same texts, so the SQL and the scripts are those of production.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from raceproof.kernel.statement import Rows, Statement
from raceproof.programs import Programs
from raceproof.schema import Dialect

T = TypeVar("T")
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


class Ground(Protocol):
    """One store to explore on."""

    dialect: str

    programs: Programs

    def set_clock(self, clock: float) -> None:
        """What the store's clock shows from now on, in seconds since the run began."""

    def next_expiry(self) -> float | None:
        """When the next lease, rest or turn is over that a statement has worked out so far."""

    def expiries(self) -> object:
        """All of them, to tell one state from another."""

    def reset(self) -> None:
        """Back to what `keep` has kept."""

    def keep(self) -> None:
        """What is there now is the beginning of every run."""

    def learns(self, statement: Statement) -> bool:
        """Whether the library only looks at the tables with it, once for all; then it is no step."""
        ...

    def execute(self, statement: Statement) -> Rows:
        """A statement of the library."""
        ...

    def sql(self, text: str, params: Sequence[Any]) -> Rows:
        """A statement of the user's own."""
        ...

    def observed(self, answer: Any) -> object:
        """What a process can tell from an answer, as a value with a hash."""

    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...

    def aside(self, look: Callable[[], T]) -> T | None:
        """Look at something, and undo whatever that has done; None where that takes longer than to begin anew."""
        ...

    def version(self) -> object:
        """Changes whenever something was written."""

    def state(self) -> object:
        """All rows as one value, to tell one state from another."""

    def tables(self) -> Tables:
        """All rows, in an order that does not depend on how they came about."""
        ...

    def script(self, text: str) -> None:
        """DDL and rows of a scenario."""

    def create(self, table: str, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        """A table; the types are `text`, `number` and `time`."""

    def ddl(self, texts: Mapping[Dialect, str]) -> None:
        """Tables of the library's own."""

    def insert(self, table: str, keys: Sequence[str], values: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


def statements(text: str) -> Iterable[str]:
    """The statements of a script; a semicolon within a text is not expected in a scenario."""
    return (one.strip() for one in text.split(";") if one.strip())


def frozen(answer: Any) -> object:
    """Rows, or whatever else an operation answers, as a text."""
    return repr(answer)
