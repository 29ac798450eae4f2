"""What a primitive yields and a driver runs: statements, their texts in files, and the two runners.

A *Program* is a generator: `rows = yield Statement(…)`, and it returns the outcome. It does no I/O, so the same program
runs on a sync driver, on an async one, and inside a test that decides what happens between two statements.

An SQL file has `{slot}` where a declaration fills in and `{$name}` where a parameter goes. It is prepared once for each
style of placeholder; nothing is ever found and replaced in finished SQL.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from operator import itemgetter
from string import Formatter
from typing import Any, Literal, NamedTuple, TypeVar

from raceproof.kernel.quoting import parameter

T = TypeVar("T")
log = logging.getLogger("raceproof")

Style = Literal["dollar", "question", "format"]
Row = Sequence[Any]
Rows = Sequence[Row]
Values = Mapping[str, Any]


class Statement(NamedTuple):
    """One request to the store; `keys` are the Redis keys that a script touches."""

    name: str
    text: str
    params: Sequence[Any] = ()
    keys: Sequence[str] = ()


Program = Generator[Statement, Rows, T]

# A program of several statements encloses them in these; a driver knows what they mean on its connection:
# its own transaction, or a savepoint in the caller's.
BEGIN = Statement("begin", "BEGIN")
COMMIT = Statement("commit", "COMMIT")
ROLLBACK = Statement("rollback", "ROLLBACK")


def transaction(begin: Statement, body: Program[T]) -> Program[T]:
    """All statements of a program, or none: also when it fails or is cancelled half-way."""
    try:
        yield begin
        result = yield from body
        yield COMMIT
    except GeneratorExit:
        # the program was abandoned; what it has begun ends with its connection
        raise
    except BaseException:
        # whatever becomes of that, what counts is why it had to be: an outage, a bad value, Ctrl-C
        with suppress(Exception):
            yield ROLLBACK
        raise
    return result


def inside(program: Program[T]) -> Program[T]:
    """A program as a part of a transaction that is open already: its own BEGIN and COMMIT are nothing."""
    try:
        statement = next(program)
        while True:
            if statement.text in ("BEGIN", "COMMIT", "ROLLBACK"):
                statement = program.send(())
                continue
            try:
                rows = yield statement
            except GeneratorExit:
                raise
            except BaseException as error:
                statement = program.throw(error)
            else:
                statement = program.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


@lru_cache(maxsize=4096)
def only_reads(text: str) -> bool:
    """Whether an SQL text writes and locks nothing, so that it may be cancelled: a row lock is a write that commits."""
    words = text.split()
    return words[0] == "SELECT" and not ("FOR" in words and {"UPDATE", "SHARE"} & set(words))


def reading(program: Program[T]) -> Program[T]:
    """A program that only reads: a lost answer or a conflict is just the driver's error, as it was."""
    try:
        return (yield from program)
    except (AcknowledgementLost, Conflicted) as internal:
        raise (internal.__cause__ or internal) from None


class Conflicted(Exception):
    """Raised by a driver: the store gave up this transaction for another (serialization, deadlock, stale snapshot)."""


class AcknowledgementLost(Exception):
    """Raised by a driver: the statement was sent and committed by itself, and no answer came back."""


Watcher = Callable[[Statement, Exception], object]

watchers: tuple[Watcher, ...] = ()


def watch_failures(watcher: Watcher) -> Callable[[], None]:
    """Subscribe to statements that a driver failed to run; call the result to unsubscribe."""
    global watchers
    watchers = (*watchers, watcher)

    def stop() -> None:
        global watchers
        watchers = tuple(one for one in watchers if one is not watcher)

    return stop


def tell_failure(statement: Statement, error: BaseException) -> None:
    """A conflict is a race and no failure, and neither is a cancelled call."""
    if isinstance(error, Exception) and not isinstance(error, Conflicted):
        for watcher in watchers:
            try:
                watcher(statement, error)
            except Exception:
                log.exception("a watcher of raceproof failed on %s", statement.name)


def run(execute: Callable[[Statement], Rows], program: Program[T]) -> T:
    """Run a program on a sync driver."""
    try:
        statement = next(program)
        while True:
            try:
                rows = execute(statement)
            except BaseException as error:
                if watchers:
                    tell_failure(statement, error)
                statement = program.throw(error)
            else:
                statement = program.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def arun(execute: Callable[[Statement], Awaitable[Rows]], program: Program[T]) -> T:
    """Run a program on an async driver."""
    try:
        statement = next(program)
        while True:
            try:
                rows = await execute(statement)
            except BaseException as error:
                if watchers:
                    tell_failure(statement, error)
                statement = program.throw(error)
            else:
                statement = program.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


@dataclass(frozen=True, slots=True)
class Prepared:
    """A finished text and the names of the values that it wants, in order."""

    name: str
    text: str
    order: tuple[str, ...]

    def bind(self, values: Values) -> Statement:
        return Statement(self.name, self.text, tuple([values[name] for name in self.order]))

    def picking(self, layout: Sequence[str]) -> Callable[[Sequence[Any]], Statement]:
        """The same for values that always come in the order of `layout`: the quick way, for texts that are used a lot."""
        name, text, make = self.name, self.text, Statement._make
        places = [layout.index(wanted) for wanted in self.order]
        if places == list(range(len(places))):
            end = len(places)
            return lambda values: make((name, text, values[:end], ()))
        pick = itemgetter(*places) if len(places) > 1 else lambda values: [values[place] for place in places]
        return lambda values: make((name, text, pick(values), ()))


class Template:
    """One named SQL statement of a file. `{slot}` is filled from a declaration; a line with an empty `{slot?}` goes."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self.name = name
        self._lines = [list(Formatter().parse(line)) for line in lines]

    def fill(self, slots: Mapping[str, str]) -> str:
        """Fill the slots; what comes out still has `parameter(name)` for its parameters."""
        lines = []
        for parts in self._lines:
            if any(field and field.endswith("?") and not slots[field[:-1]] for _, field, _, _ in parts):
                continue
            lines.append("".join(_fill(text, field, slots) for text, field, _, _ in parts))
        return "\n".join(lines)

    def prepare(self, slots: Mapping[str, str], style: Style) -> Prepared:
        return prepare(self.name, self.fill(slots), style)


def _fill(text: str, field: str | None, slots: Mapping[str, str]) -> str:
    if field is None:
        return text
    return text + (parameter(field[1:]) if field.startswith("$") else slots[field.removesuffix("?")])


def prepare(name: str, text: str, style: Style) -> Prepared:
    """Write the parameters of a text in the style that a driver wants."""
    order: list[str] = []
    out: list[str] = []
    for place, part in enumerate(text.split("\0")):
        if place % 2 == 0:
            out.append(part.replace("%", "%%") if style == "format" else part)
        elif style == "dollar":
            if part not in order:
                order.append(part)
            out.append(f"${order.index(part) + 1}")
        else:
            # one value for each place: Python 3.12 warns of a sequence for `?1`, which is a name to it
            order.append(part)
            out.append("%s" if style == "format" else "?")
    return Prepared(name, "".join(out), tuple(order))


@cache
def templates(package: str, file: str) -> Mapping[str, Template]:
    """Read the named statements of an SQL file: each starts with a line `-- name: …`; its comments stay outside."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in source(package, file).splitlines():
        if line.startswith("-- name: "):
            lines = found.setdefault(line.removeprefix("-- name: ").strip(), [])
        elif line.strip() and not line.lstrip().startswith("--"):
            lines.append(line.rstrip())
    return {name: Template(name, lines) for name, lines in found.items()}


@cache
def source(package: str, file: str) -> str:
    return files(package).joinpath(file).read_text(encoding="utf-8")
