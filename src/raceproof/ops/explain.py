"""Why can a row not move to a status now? Compares the declaration with the row: each condition, true or false.

Promise: pure; it decides and writes nothing, the store decides the move on the row of that moment. A guard that only the
store can evaluate (`sql(…)`, the order of texts) is unknown, never guessed.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

from raceproof.declare.predicate import Comparison, Predicate
from raceproof.declare.spec import Move, Spec
from raceproof.declare.statuses import text_of_status
from raceproof.kernel.errors import CallError
from raceproof.kernel.secrecy import HIDDEN, is_secret
from raceproof.kernel.shown import shown_key, shown_moment
from raceproof.moves import HistoryEntry

__all__ = ["Condition", "Explanation", "Step", "explain", "holds", "shortest_path"]

Verdict = Literal["already", "possible", "depends", "impossible", "missing"]
"""`depends`: all conditions known here hold, the store decides the rest."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a move; `holds` is None if only the store can evaluate it."""

    what: str
    holds: bool | None
    found: str
    """What was found instead, or why it is unknown; empty if the condition holds."""
    move: str | None = None
    """The move that requires it; None if all moves do."""


@dataclass(frozen=True, slots=True)
class Step:
    """One declared move from one status."""

    move: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer; `lines()` for people, `to_dict()` for programs."""

    lifecycle: str
    key: Any
    status: str | None
    target: str
    verdict: Verdict
    conditions: tuple[Condition, ...]
    last: HistoryEntry | None
    """The last accepted move, if the lifecycle keeps a history."""
    allowed: tuple[Step, ...]
    """The moves from the current status, ignoring guards."""
    path: tuple[Step, ...]
    """The shortest declared path to the target; empty if there is none."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The same as text."""
        lines = [self._headline()]
        lines += [f"  {_mark(one.holds)} {_condition(one)}" for one in self.conditions]
        if self.last:
            lines.append(f"Last moved {_last_move(self.last)}.")
        if self.verdict in ("missing", "already"):
            return lines
        if self.verdict == "impossible":
            allowed = ", ".join(f"{step.move} → {step.after}" for step in self.allowed) or "nothing"
            lines.append(f"Allowed from {self.status}: {allowed}.")
            if len(self.path) > 1:
                way = ", then ".join(f"{step.move} → {step.after}" for step in self.path)
                lines.append(f"Path: {way}.")
            elif not self.path:
                lines.append(f"No declared moves lead from {self.status} to {self.target}.")
        return lines

    def _headline(self) -> str:
        row = f"{self.lifecycle} {shown_key(self.key)}" if self.key is not None else f"The row of {self.lifecycle}"
        match self.verdict:
            case "missing":
                return f"{row} does not exist."
            case "already":
                return f"{row} is already at {self.target}."
            case "possible":
                return f"{row} is at {self.status} and can move to {self.target} now."
            case "depends":
                return f"{row} is at {self.status} and may move to {self.target}: the store decides the conditions marked ?."
            case "impossible":
                return f"{row} is at {self.status} and cannot move to {self.target} now."


def explain(
    spec: Spec[Any],
    row: Mapping[str, Any] | None,
    to: str | Move[Any],
    history: Iterable[HistoryEntry] = (),
    key: Any = None,
    hidden: Collection[str] = (),
) -> Explanation:
    """Hold the declaration against a row: can it go to the status `to` now (or by the move `to`), and if not, why?

    `row` is what `store.read` returned; `history` what `store.history` returned, newest first. Values of the columns in
    `hidden`, and of those whose names speak of secrets, are not part of the answer.
    """
    moves, target = _moves_to(spec, to)
    last = next((entry for entry in history if entry.outcome == "moved"), None)
    if row is None:
        return Explanation(spec.name, key, None, target, "missing", (), last, (), ())
    if spec.column not in row:
        raise CallError(
            f"{spec}: the row has no column {spec.column!r}; `raceproof verify` compares table and declaration"
        )
    status = "NULL" if row[spec.column] is None else str(row[spec.column])
    conditions = tuple(_conditions(spec, row, status, moves, hidden))
    return Explanation(
        lifecycle=spec.name,
        key=key,
        status=status,
        target=target,
        verdict="already" if status == target else _verdict(moves, conditions),
        conditions=() if status == target else conditions,
        last=last,
        allowed=tuple(_steps(spec, status)),
        path=shortest_path(spec, status, target),
    )


def shortest_path(spec: Spec[Any], status: str, target: str) -> tuple[Step, ...]:
    """The fewest declared moves from one status to another, guards not considered; the first declared of several."""
    seen = {status}
    ways: deque[tuple[str, tuple[Step, ...]]] = deque([(status, ())])
    while ways:
        at, way = ways.popleft()
        for step in _steps(spec, at):
            if step.after == target:
                return (*way, step)
            if step.after not in seen:
                seen.add(step.after)
                ways.append((step.after, (*way, step)))
    return ()


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Whether a guard holds for a row as it was read; None where only the store can tell."""
    if not isinstance(predicate, Comparison) or predicate.column not in row:
        return None
    found, value = row[predicate.column], predicate.value
    match predicate.operator:
        case "is null":
            return found is None
        case "is not null":
            return found is not None
    if found is None:
        return False
    if isinstance(value, str):
        # which of two texts comes first depends on the collation of the column
        same = str(found) == value
        return {"=": same, "<>": not same}.get(predicate.operator)
    number = _number(found)
    return None if number is None or value is None else _compare(number, predicate.operator, _exact(value))


def _compare(found: Decimal, operator: str, value: Decimal) -> bool:
    return {
        "=": found == value,
        "<>": found != value,
        "<": found < value,
        "<=": found <= value,
        ">": found > value,
        ">=": found >= value,
    }[operator]


def _number(found: Any) -> Decimal | None:
    """A number, also one that the store keeps as text, as Redis does."""
    if not isinstance(found, int | float | Decimal | str):
        return None
    try:
        number = _exact(found)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _exact(value: Any) -> Decimal:
    return Decimal(repr(value) if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value))


def _moves_to(spec: Spec[Any], to: str | Move[Any]) -> tuple[list[Move[Any]], str]:
    if isinstance(to, Move):
        return [to], str(to.target)
    to = text_of_status(to)
    if to not in spec.status_of:
        raise CallError(f"{spec} has no status {to!r}; it has {', '.join(spec.status_of)}")
    return [move for move in spec.moves.values() if move.target == to], str(to)


def _conditions(
    spec: Spec[Any], row: Mapping[str, Any], status: str, moves: Sequence[Move[Any]], hidden: Collection[str]
) -> Iterable[Condition]:
    known = status in spec.status_of
    if not known:
        declared = ", ".join(spec.status_of)
        yield Condition("status must be declared", False, f"it is {status}; the declared statuses are {declared}")
    if status in spec.terminal:
        yield Condition("a move must lead out of the status", False, f"{status} is terminal")
    if not moves:
        yield Condition("a move must lead to the status", False, "none is declared; only new rows have it")
    for move in moves:
        sources = " or ".join(move.sources)
        at_source = status in move.sources
        found = "" if at_source else f"the row is at {status}"
        yield Condition(f"status {sources}", at_source, found, move.name)
        for guard in move.where:
            yield _guard(guard, row, move, hidden)


def _guard(guard: Predicate, row: Mapping[str, Any], move: Move[Any], hidden: Collection[str]) -> Condition:
    held = holds(guard, row)
    what, found = str(guard), ""
    if isinstance(guard, Comparison) and is_secret(guard.column, hidden):
        value = "" if guard.value is None else f" {HIDDEN}"
        found = "" if held else "the value is hidden"
        return Condition(f"{guard.column} {guard.operator}{value}", held, found, move.name)
    if held is None:
        found = "decided by the store"
    elif not held and isinstance(guard, Comparison):
        value = row[guard.column]
        found = f"{guard.column} is {'NULL' if value is None else repr(value)}"
    return Condition(what, held, found, move.name)


def _verdict(moves: Sequence[Move[Any]], conditions: Sequence[Condition]) -> Verdict:
    ends = []
    for move in moves:
        mine = [condition.holds for condition in conditions if condition.move == move.name]
        ends.append(False if False in mine else None if None in mine else True)
    return "possible" if True in ends else "depends" if None in ends else "impossible"


def _steps(spec: Spec[Any], status: str) -> Iterable[Step]:
    for name in spec.moves_from.get(status, ()):
        yield Step(name, status, str(spec.moves[name].target))


def _mark(held: bool | None) -> str:
    return "?" if held is None else "✓" if held else "✗"


def _condition(one: Condition) -> str:
    needed = f"{one.move} requires {one.what}" if one.move else one.what
    if one.holds is None:
        return f"{needed} ({one.found})"
    return f"{needed}, but {one.found}" if one.found else needed


def _last_move(entry: HistoryEntry) -> str:
    by = f"by {entry.actor} " if entry.actor else ""
    reason = f", because: {entry.reason}" if entry.reason else ""
    before = entry.before or "(new)"  # an override may have inserted it
    return f"{by}at {shown_moment(entry.at)}: {entry.move}, {before} → {entry.after}{reason}"
