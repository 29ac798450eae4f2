"""The steps of a schedule as people read them; the table, the page and the diagram all tell this.

A start, or a timer, is told together with the operation that follows it. An answer that a process never got is not told.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.changes import changes, plain, shortened
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.run import Step
from raceproof.testing.explorer.verdict import Verdict

FAULTS = {
    Fate.DONE: "",
    Fate.DIES_BEFORE: "✗ dies just before",
    Fate.DIES_AFTER: "✗ dies just after",
    Fate.FAILS: "✗ fails, nothing was done",
    Fate.UNANSWERED: "✗ done, but the answer is lost",
    Fate.CANCELLED_BEFORE: "✗ cancelled just before",
    Fate.CANCELLED_AFTER: "✗ cancelled just after",
}
NOT_DONE = (Fate.DIES_BEFORE, Fate.CANCELLED_BEFORE, Fate.FAILS)
_ANSWERED = (Fate.DONE, Fate.CANCELLED_AFTER)
_SQL = "SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|VALUES|CREATE|DROP|ALTER|PRAGMA"
_EFFECT = re.compile(rf"(?!(?:{_SQL})\b)([^()]*[^\s()])\(.*\)", re.DOTALL | re.IGNORECASE)
_READS = re.compile(r"\s*SELECT\b|.*\bRETURNING\b", re.IGNORECASE | re.DOTALL)
_WRITES = re.compile(r"\s*(UPDATE|INSERT|DELETE|REPLACE)\b", re.IGNORECASE)
_SILENT = ("starts", "wakes up")
_LONG = 160
_MOST_ROWS = 8


@dataclass(frozen=True, slots=True)
class Scene:
    """One line of the story. `process` is None at the beginning and where time passes; `effect` is what happens outside."""

    numbers: str
    clock: float
    process: str | None
    start: str
    operation: str
    fate: Fate
    answers: tuple[str, ...]
    changes: tuple[str, ...]
    effect: str | None

    @property
    def fault(self) -> str:
        return FAULTS[self.fate]


def scenes(verdict: Verdict) -> list[Scene]:
    """The steps in order."""
    return list(_scenes(verdict))


def _scenes(verdict: Verdict) -> Iterator[Scene]:
    steps = verdict.steps
    started: set[str] = set()
    writing: str | None = None  # who has a transaction open
    before: Tables = steps[0].tables if steps else {}
    first = 0
    start = ""
    if beginning := changes({}, before):
        yield Scene("", 0.0, None, "", "the beginning", Fate.DONE, (), tuple(_few(beginning)), None)
    for place, step in enumerate(steps):
        number = step.number
        if step.process is not None and _starts(step):
            start = "starts again" if step.process in started else "starts"
            started.add(step.process)
            writing = None if step.process == writing else writing
        if _leads_to(step, steps[place + 1 : place + 2]):
            first, start = first or number, start or step.operation
            continue
        numbers = f"{first}–{number}" if first else str(number)
        found = changes(before, step.tables)
        if step.operation == "BEGIN" and step.fate is Fate.DONE:
            writing = step.process
        elif step.process == writing and (step.operation == "COMMIT" or step.fate is not Fate.DONE):
            writing = None
        operation = "" if _starts(step) else shortened(plain(step.operation), _LONG)
        effect = _EFFECT.fullmatch(operation) if step.process else None
        if not found and step.fate is Fate.DONE and _WRITES.match(operation):
            found = ["(seen by nobody before COMMIT)" if step.process == writing else "no row changes"]
        yield Scene(
            numbers,
            step.clock,
            step.process,
            start,
            operation,
            step.fate,
            tuple(_answers(step)),
            tuple(found),
            effect[1] if effect else None,
        )
        before, first, start = step.tables, 0, ""


def _few(rows: list[str]) -> list[str]:
    more = len(rows) - _MOST_ROWS
    return rows if more <= 0 else [*rows[:_MOST_ROWS], f"… and {more} more"]


def _starts(step: Step) -> bool:
    return step.operation == "starts"


def _leads_to(step: Step, following: Sequence[Step]) -> bool:
    """Whether nothing is to be told of a step but that the next one follows."""
    return (
        step.operation in _SILENT
        and step.fate is Fate.DONE
        and not step.told
        and any(one.process == step.process and one.operation not in _SILENT for one in following)
    )


def _answers(step: Step) -> Iterator[str]:
    """What the process was told: by the library, or the rows."""
    if step.told:
        yield from (shortened(plain(one), _LONG) for one in step.told)
    elif step.fate in _ANSWERED:
        if step.answer:
            yield shortened(plain(_rows(step.answer)), _LONG)
        elif _READS.match(step.operation):
            yield "no rows"


def _rows(answer: str) -> str:
    """Rows without what every row has around it: `'READY'` for the only column of the only row."""
    try:
        rows = ast.literal_eval(answer)
    except (ValueError, SyntaxError):
        return answer
    if not (isinstance(rows, list) and rows and all(isinstance(row, tuple) for row in rows)):
        return answer
    told = [repr(row[0]) if len(row) == 1 else repr(row) for row in rows]
    return ", ".join(told)
