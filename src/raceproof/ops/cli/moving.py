"""Moving many rows for the command line: in batches, each answer as a line of data, all of them as one exit code."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from raceproof import Already, Conflict, Missing, Moved, Store, Unknown
from raceproof.declare import Move
from raceproof.declare.statuses import text_of_status
from raceproof.moves import Answer
from raceproof.ops.cli.ends import ExitCode
from raceproof.ops.cli.keys import Key
from raceproof.ops.explain import Explanation, explain

BATCH = 500
"""So many rows are moved by one statement; a batch is kept or not as a whole."""


@dataclass(frozen=True, slots=True)
class Line:
    """What came of one row, or would come of it."""

    key: Any
    outcome: str
    before: str | None
    status: str | None
    revision: int | None
    message: str
    code: ExitCode
    moves: bool
    """Whether this call moved the row, or would."""

    def data(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "outcome": self.outcome,
            "before": self.before,
            "status": self.status,
            "revision": self.revision,
            "message": self.message,
        }


def move_rows(
    store: Store, move: Move[Any], keys: Sequence[Key], columns: Mapping[str, Any], by: str | None, reason: str | None
) -> Iterator[Line]:
    """Move the rows; stops after a batch whose end nobody knows."""
    if len(keys) == 1:
        yield _line(store.move(move, keys[0], set=columns, by=by, reason=reason))
        return
    for start in range(0, len(keys), BATCH):
        answers = store.move_many(move, keys[start : start + BATCH], set=columns, by=by, reason=reason)
        yield from map(_line, answers)
        if any(isinstance(answer, Unknown) for answer in answers):
            return


def foresee_rows(store: Store, move: Move[Any], keys: Sequence[Key]) -> Iterator[Line]:
    """What would come of it, from the rows as they are now; nothing is written."""
    spec = move.lifecycle
    for key in keys:
        yield _foreseen(explain(spec, store.read(spec, key), move, key=key))


class Ended(Protocol):
    """What came of one row, as far as the exit code is concerned."""

    @property
    def code(self) -> ExitCode: ...


def exit_code(lines: Sequence[Ended]) -> ExitCode:
    """One code for all rows: the row's own if there is one, `PARTLY` where some reached the target and some did not."""
    failed = {line.code for line in lines if line.code != ExitCode.OK}
    if failed and any(line.code == ExitCode.OK for line in lines):
        return ExitCode.PARTLY
    ranked = (ExitCode.UNREACHABLE, ExitCode.ERROR, ExitCode.REFUSED, ExitCode.NOT_FOUND)
    return next((code for code in ranked if code in failed), ExitCode.OK)


def summary(lines: Sequence[Line]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in Counter(line.outcome for line in lines).items())


def _line(answer: Answer[Any, Any]) -> Line:
    match answer:
        case Moved():
            code = ExitCode.OK
        case Already():
            code = ExitCode.OK
        case Missing():
            code = ExitCode.NOT_FOUND
        case Unknown():
            code = ExitCode.UNREACHABLE
        case Conflict():
            code = ExitCode.ERROR
        case _:
            code = ExitCode.REFUSED
    return Line(
        key=answer.key,
        outcome=answer.outcome,
        before=text_of_status(answer.before) if isinstance(answer, Moved) else None,
        status=None if isinstance(answer, Missing | Unknown | Conflict) else text_of_status(answer.status),
        revision=None if isinstance(answer, Missing | Unknown | Conflict) else answer.revision,
        message=str(answer),
        code=code,
        moves=answer.won,
    )


_FORESEEN = {
    "possible": ("would move", ExitCode.OK),
    "depends": ("may move", ExitCode.OK),
    "already": ("already", ExitCode.OK),
    "impossible": ("would be refused", ExitCode.REFUSED),
    "missing": ("missing", ExitCode.NOT_FOUND),
}


def _foreseen(told: Explanation) -> Line:
    outcome, code = _FORESEEN[told.verdict]
    goes = told.verdict in ("possible", "depends")
    unmet = [f"{one.what} ({one.found})" for one in told.conditions if not one.holds]
    return Line(
        key=told.key,
        outcome=outcome,
        before=told.status if goes else None,
        status=told.target if goes else told.status,
        revision=None,
        message=told.lines()[0] + (f" Unmet: {'; '.join(unmet)}." if unmet else ""),
        code=code,
        moves=goes,
    )
